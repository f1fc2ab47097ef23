"""Say something true about a scene: sometimes only its name, sometimes everything."""

import numpy as np

from mini_world import words
from mini_world.vocabulary import BACKDROPS, COLOUR_NAMES, DIGITS, SIZES, STYLES, TEXTURES, Scene


def _pick(rng: np.random.Generator, options: tuple[str, ...]) -> str:
    """Draw one of the options."""
    return options[int(rng.integers(len(options)))]


def with_article(phrase: str) -> str:
    """Put "a" or "an" before a phrase."""
    return f"an {phrase}" if phrase[0] in "aeiou" and not phrase.startswith("one") else f"a {phrase}"


def caption(scene: Scene, rng: np.random.Generator) -> tuple[str, Scene]:
    """Give a caption and what it said: the fields it did not mention are -1."""
    speaker = {
        "object": _object,
        "arrow": _arrow,
        "texture": _texture,
        "flag": _flag,
        "sign": _sign,
        "land": _land,
        "face": _face,
        "letter": _glyph,
        "digit": _glyph,
    }[scene.family]
    return speaker(scene, rng)


def _colour(scene: Scene, rng: np.random.Generator, share: float) -> tuple[str, int]:
    """Name the colour, or leave it out."""
    if rng.random() > share:
        return "", -1
    return _pick(rng, words.COLOUR_WORDS[COLOUR_NAMES[scene.colour]]), scene.colour


def _object(scene: Scene, rng: np.random.Generator) -> tuple[str, Scene]:
    """Describe objects, with more or fewer of their properties."""
    noun = _pick(rng, words.OBJECT_WORDS[scene.name])
    colour_word, colour = _colour(scene, rng, 0.6)
    texture_word, texture, size_word, size, count = "", -1, "", -1, -1
    if scene.texture >= 0 and rng.random() < 0.75:
        texture_word, texture = words.TEXTURE_WORDS[TEXTURES[scene.texture]][0], scene.texture
    if scene.count == 1 and SIZES[scene.size] != "medium" and rng.random() < 0.2:
        size_word, size = _pick(rng, words.SIZE_WORDS[SIZES[scene.size]]), scene.size
    adjectives = " ".join(word for word in (size_word, colour_word, texture_word) if word)
    if scene.count > 1:
        noun, count = (
            words.PLURALS.get(noun, f"{noun}s") if " " not in noun else scene.name + "s",
            scene.count,
        )
        phrase = " ".join(word for word in (words.NUMBERS[scene.count], adjectives, noun) if word)
    else:
        phrase = with_article(f"{adjectives} {noun}".strip())
    backdrop, style = -1, -1
    if rng.random() < (0.15 if BACKDROPS[scene.backdrop] == "plain" else 0.45):
        phrase, backdrop = (
            f"{phrase} {_pick(rng, words.BACKDROP_WORDS[BACKDROPS[scene.backdrop]])}",
            scene.backdrop,
        )
    sentence = _pick(rng, words.SENTENCES)
    if rng.random() < 0.3:
        sentence, style = _pick(rng, words.STYLE_WORDS[STYLES[scene.style]]), scene.style
    return sentence.format(phrase), Scene(scene.concept, colour, -1, texture, count, backdrop, style, size)


def _arrow(scene: Scene, rng: np.random.Generator) -> tuple[str, Scene]:
    """Describe an arrow and its direction."""
    colour_word, colour = _colour(scene, rng, 0.4)
    arrow = with_article(f"{colour_word} arrow".strip())
    to = f"to the {scene.name}" if scene.name in ("left", "right") else scene.name
    phrase = _pick(rng, (f"{arrow} pointing {scene.name}", f"{arrow} that points {to}", f"{arrow} {to}"))
    return _pick(rng, words.SENTENCES).format(phrase), Scene(scene.concept, colour)


def _texture(scene: Scene, rng: np.random.Generator) -> tuple[str, Scene]:
    """Describe a pattern, with none, one or both of its colours."""
    adjective, noun = words.TEXTURE_WORDS[TEXTURES[scene.texture]]
    first, colour = _colour(scene, rng, 0.5)
    second = -1
    if first and rng.random() < 0.6:
        first, second = f"{first} and {COLOUR_NAMES[scene.second]}", scene.second
        if rng.random() < 0.5:
            first = " and ".join(reversed(first.split(" and ")))
    thing = _pick(rng, ("texture", "pattern", "surface", "texture", "wall", "cloth", "material"))
    phrase = _pick(
        rng,
        (
            with_article(f"{first} {adjective} {thing}".strip()),
            f"{first} {noun}".strip(),
            f"a {thing} with {first} {noun}".replace("  ", " "),
            with_article(f"{adjective} {thing}") + (f" in {first}" if first else ""),
        ),
    )
    return _pick(rng, words.SENTENCES).format(phrase), Scene(scene.concept, colour, second)


def _flag(scene: Scene, rng: np.random.Generator) -> tuple[str, Scene]:
    """Name a flag by its country or by its looks."""
    nation = scene.name
    phrase = _pick(
        rng,
        (
            f"the flag of {nation}",
            f"the flag of {nation}",
            f"the {words.ADJECTIVES_OF_NATIONS[nation]} flag",
            f"a flag of {nation}",
            f"a flag with {words.FLAG_DESCRIPTIONS[nation]}",
            f"the flag of {nation}, {words.FLAG_DESCRIPTIONS[nation]}",
        ),
    )
    return _pick(rng, words.SENTENCES).format(phrase), Scene(scene.concept)


def _sign(scene: Scene, rng: np.random.Generator) -> tuple[str, Scene]:
    """Name a sign by its meaning or by its looks."""
    looks, meaning = words.SIGN_DESCRIPTIONS[scene.name]
    plain = with_article(f"{scene.name} sign")
    road = with_article(f"{scene.name} road sign")
    traffic = with_article(f"{scene.name} traffic sign")
    phrase = _pick(rng, (plain, plain, road, traffic, looks, meaning, f"{plain}, {looks}"))
    return _pick(rng, words.SENTENCES).format(phrase), Scene(scene.concept)


def _land(scene: Scene, rng: np.random.Generator) -> tuple[str, Scene]:
    """Name a place."""
    phrase = _pick(rng, words.LAND_WORDS[scene.name])
    sentences = words.LAND_SENTENCES if rng.random() < 0.5 else words.SENTENCES
    return _pick(rng, sentences).format(phrase), Scene(scene.concept)


def _face(scene: Scene, rng: np.random.Generator) -> tuple[str, Scene]:
    """Name the mood of a face."""
    mood = _pick(rng, words.FACE_WORDS[scene.name])
    person = _pick(rng, ("face", "face", "face", "person", "man", "woman", "child"))
    plain = with_article(f"{mood} {person}")
    phrase = _pick(rng, (plain, plain, f"a {person} that is {mood}"))
    return _pick(rng, words.SENTENCES).format(phrase), Scene(scene.concept)


def _glyph(scene: Scene, rng: np.random.Generator) -> tuple[str, Scene]:
    """Name a letter or a number."""
    colour_word, colour = _colour(scene, rng, 0.3)
    kind = "letter" if scene.family == "letter" else _pick(rng, ("digit", "number"))
    name = scene.name
    if scene.family == "digit" and rng.random() < 0.4:
        name = words.NUMBERS[DIGITS.index(scene.name)]
    described = f"{colour_word} {kind}".strip()
    phrase = _pick(
        rng,
        (
            f"the {described} {name}",
            f"{with_article(described)} {name}",
            f"the {described}: {name}",
            f'the {described}: "{name}"',
        ),
    )
    return _pick(rng, words.SENTENCES).format(phrase), Scene(scene.concept, colour)
