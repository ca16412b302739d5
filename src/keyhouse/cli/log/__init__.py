"""`keyhouse log`: copy transparency logs, and check policies of witnesses."""
