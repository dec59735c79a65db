"""Dataset file formats, one file each: a plug-in folder. Each module defines `EXPORTER`."""
