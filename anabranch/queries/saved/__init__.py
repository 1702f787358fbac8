"""Data sources and saved queries, as people save them; they are run by `anabranch.queries`."""
