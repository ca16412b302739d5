"""The report on an evidence file as a page for auditors: one HTML file without scripts."""
