"""Backup and restore of everything that evalhub keeps: the database of all rooms, and the objects.

A floor above the rooms: it copies whole tables and whole objects, whatever they mean. A backup is a
folder that is read without evalhub: a database as its own tools write it, the objects under their
keys, and a manifest that comes last. Rows come first, objects after them: an object is stored before
the first row that names it, so every row of the backup finds its object.
"""
