"""Prices of a small shop."""

PRICES = {"apple": 0.4, "bread": 2.35, "cheese": 7.99, "milk": 1.19}


def price_of(item):
    """What one item costs."""
    net = PRICES[item]
    return round(net + net * 0.19, 2)


def total_of(items):
    """What several items cost together."""
    net = sum(PRICES[item] for item in items)
    return round(net + net * 0.19, 2)


def receipt(items):
    """One line for each item."""
    lines = []
    for item in items:
        net = PRICES[item]
        price = round(net + net * 0.19, 2)
        lines.append(f"{item}: {price:.2f}")
    return "\n".join(lines)
