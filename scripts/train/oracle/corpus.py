"""Text on which the fixtures' tiny vocabularies are trained: enough for common English merges and some of other scripts."""

ENGLISH = """
The device holds the first layers of the model and the last one; the bridge holds the rest. A prompt is asked at the
device, and the answer comes back as a stream of tokens. When the link breaks, the device keeps what it knows and goes
on at another bridge. Nothing that a person typed leaves the device: only the states of the hidden layers travel.

Once upon a time there was a lighthouse keeper who lived on a small island. Every evening she climbed the stairs and
lit the lamp, and every morning she put it out again. One winter the sea was so rough that no boat could land for
thirty days. "What shall we eat?" asked her brother. "We have fish, flour and patience," she said, "and that's enough."

How do I measure the temperature of the board? You can read it from the thermal zone, once a second, and keep the
last hundred values. If it is over 85 degrees, slow the work down; if it's over 95 degrees, stop. I'd rather wait than
break things, and they'll thank you for it. We've seen it happen; don't let it happen here. You're the one who knows.

There are three kinds of answers: short ones, long ones, and those that nobody has thought of yet. In 2024 there were
1,024 of them; in 2025 there were 4,096, which is 300% more. The question is not whether the answer is right but how
you would know. Write a test, run it twice, and then change one thing at a time until it fails for a reason.

def read(path, limit=1024):
    with open(path, "rb") as file:
        data = file.read(limit)
    return [byte for byte in data if byte != 0]

for (let i = 0; i < values.length; i++) { total += values[i] * weights[i] }
"""

OTHERS = """
Der Wärter zündete jeden Abend die Lampe an, und jeden Morgen löschte er sie wieder aus. Straße, Größe, Übung.
Le gardien allumait la lampe chaque soir; l'été, il dormait près de la fenêtre. Ça va? Où êtes-vous?
Сторож зажигал лампу каждый вечер и гасил её каждое утро. Что мы будем есть?
灯塔的看守人每天晚上点亮灯，每天早上把它熄灭。我们吃什么？
灯台の守り人は毎晩ランプをともし、毎朝それを消した。
등대지기는 매일 저녁 등불을 켜고 매일 아침 껐다.
كان حارس المنارة يضيء المصباح كل مساء.
"""


def training_text() -> list[str]:
    """Lines, the English ones repeated so that the few merges there are go to them."""
    return [line + "\n" for line in (ENGLISH * 3 + OTHERS).splitlines()]
