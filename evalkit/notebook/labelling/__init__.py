"""Labels given on screen: their log and the order of items."""
