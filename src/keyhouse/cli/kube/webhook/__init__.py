"""Apply the admission policies of the chart outside of the API server: the optional webhook."""
