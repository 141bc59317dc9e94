"""The schema of the first release. New databases get the newest schema at once, so nothing is made here.

It has the number of the last revision before the release, whose databases are the same.
"""

revision = "0009"
down_revision = None
