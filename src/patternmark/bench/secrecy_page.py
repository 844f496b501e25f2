"""The page and the picture of `patternmark bench secrecy`."""


def to_markdown(result):
    return ""


def plot(result, path):
    pass
