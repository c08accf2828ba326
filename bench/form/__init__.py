"""The cost of many open forms that refresh themselves for the hub: data that changed, beside the whole page."""
