"""Icons: line drawings of 24 by 24 pixels. The name of an icon is its meaning."""

from typing import Final

__all__ = ["ICONS"]

ICONS: Final = {
    "processor": '<rect x="6" y="6" width="12" height="12" rx="2"/>'
    '<rect x="9.5" y="9.5" width="5" height="5" rx="1"/>'
    '<path d="M9 2.5V6M15 2.5V6M9 18v3.5M15 18v3.5M2.5 9H6M2.5 15H6M18 9h3.5M18 15h3.5"/>',
    "quote": '<path d="M5 3h10l4 4v14H5z"/>'
    '<path d="M15 3v4h4M8.5 12.5l2.3 2.3 4.4-4.6M8.5 18.5h7"/>',
    "certificate": '<rect x="3" y="4" width="18" height="13" rx="2"/><path d="M7 8.5h7M7 12h4"/>'
    '<circle cx="16" cy="14" r="2.8"/><path d="M14.5 16.5V21l1.5-1 1.5 1v-4.5"/>',
    "manifest": '<path d="M6 3h12a1 1 0 0 1 1 1v16a1 1 0 0 1-1 1'
    'H6a1 1 0 0 1-1-1V4a1 1 0 0 1 1-1z"/>'
    '<path d="M8.5 8h7M8.5 12h7M8.5 16h4"/>',
    "lock": '<rect x="5" y="10.5" width="14" height="10" rx="2"/>'
    '<path d="M8 10.5V7.5a4 4 0 0 1 8 0v3M12 14.5v2.5"/>',
    "key": '<circle cx="8" cy="15.5" r="4.2"/><path d="M11 12.5 20 3.5M16.5 7l3 3M13.8 9.7l2 2"/>',
    "person": '<circle cx="12" cy="8" r="4"/><path d="M4.5 20.5c.8-4 3.8-6 7.5-6s6.7 2 7.5 6"/>',
    "disk": '<ellipse cx="12" cy="6" rx="7.5" ry="3"/>'
    '<path d="M4.5 6v12c0 1.7 3.4 3 7.5 3s7.5-1.3 7.5-3V6"/>'
    '<path d="M4.5 12c0 1.7 3.4 3 7.5 3s7.5-1.3 7.5-3"/>',
    "workload": '<path d="M12 2.8 20 7.2v9.6l-8 4.4-8-4.4V7.2z"/>'
    '<path d="M4 7.2l8 4.5 8-4.5M12 11.7v9.5"/>',
    "share": '<path d="M12 3a9 9 0 1 0 9 9h-9z"/><path d="M15.5 2.8a9 9 0 0 1 5.7 5.7h-5.7z"/>',
    "terminal": '<rect x="3" y="4" width="18" height="16" rx="2"/>'
    '<path d="M7 9l3 3-3 3M12.5 15H17"/>',
    "eye": '<path d="M2.5 12C5 7.5 8.3 5.5 12 5.5s7 2 9.5 6.5'
    'c-2.5 4.5-5.8 6.5-9.5 6.5S5 16.5 2.5 12z"/>'
    '<circle cx="12" cy="12" r="3"/>',
    "server": '<rect x="3.5" y="4" width="17" height="7" rx="1.5"/>'
    '<rect x="3.5" y="13" width="17" height="7" rx="1.5"/>'
    '<path d="M7 7.5h.01M7 16.5h.01M11 7.5h6M11 16.5h6"/>',
}
