"""What many open forms that refresh themselves cost the hub: data that changed, beside the whole page."""
