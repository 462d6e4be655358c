"""Search engines that are judged, one file each, behind one protocol."""
