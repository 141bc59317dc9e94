"""Days of the Gregorian calendar."""

LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def is_leap(year):
    """Whether a year has 366 days."""
    return year % 4 == 0


def day_of_year(year, month, day):
    """The number of a day in its year, from 1."""
    number = sum(LENGTHS[:month]) + day
    if is_leap(year) and month > 2:
        number += 1
    return number
