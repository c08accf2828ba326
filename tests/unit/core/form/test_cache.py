"""The cache of the form's parts."""

from __future__ import annotations

from gettext import NullTranslations

from gpuspawner.core.form.cache import FormCache
from gpuspawner.core.text.i18n import Language, use_language


def test_a_view_is_built_once_for_the_same_objects_in_each_language():
    cache, source, other = FormCache(), [1], [1]
    view = cache.get_view(source, None, build=object)
    assert cache.get_view(source, None, build=object) is view
    assert cache.get_view(other, None, build=object) is not view
    with use_language(Language(tag="de", translations=NullTranslations())):
        assert cache.get_view(source, None, build=object) is not view
    assert cache.get_view(source, None, build=object) is view


def test_the_oldest_view_is_built_again_after_many_others():
    cache, sources = FormCache(), [object() for _ in range(1025)]
    views = [cache.get_view(source, build=object) for source in sources]
    assert cache.get_view(sources[-1], build=object) is views[-1]
    assert cache.get_view(sources[0], build=object) is not views[0]
