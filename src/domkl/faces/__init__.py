"""Models of one device without neighbours, behind `domkl.DOMKL`, `domkl.river` and `domkl.sklearn`.

model = Single(for_numbers(domkl.Auto(size=400)))
model.grow(["temperature", "hour"])   # an input for each key, at any time
model.predict(x), model.learn(x, y)   # x (d,) may hold NaN where a value is missing; any scale
"""
