"""The pictures of the README and the architecture page: boxes and arrows described here, written as SVG.

Run by ``conf.py`` at every build; the files are not committed. The page includes them inline: text and lines
take the colour of the page (``currentColor``) in the light and the dark theme. All numbers are pixels.

The picture of the README is committed, because it is shown as a file: it has its own background.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Final

PICTURES: Final = Path(__file__).parent / "pictures"
DOCUMENT: Final = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img" fill="currentColor"
 style="width: 100%; max-width: {width:g}px" font-family="sans-serif" font-size="13">
<title>{title}</title>
<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" orient="auto">
<path d="M0,0 L10,5 L0,10 z" fill="currentColor"/></marker></defs>
{body}
</svg>
"""
BLUE, GREEN, GREY = "#3b82c4", "#5a9e2f", "#8a8f98"


@dataclass(frozen=True)
class Box:
    """A rectangle with a bold title above lines of text, centred; a frame has its title at the top left."""

    x: float
    y: float
    width: float
    height: float
    title: str
    lines: Sequence[str] = ()
    colour: str = BLUE
    frame: bool = False

    def svg(self) -> Iterable[str]:
        """The rectangle, then the text."""
        opacity, dash = (0.05, ' stroke-dasharray="6 4"') if self.frame else (0.16, "")
        yield (
            f'<rect x="{self.x:g}" y="{self.y:g}" width="{self.width:g}" height="{self.height:g}" rx="6"'
            f' fill="{self.colour}" fill-opacity="{opacity}" stroke="{self.colour}"{dash}/>'
        )
        if self.frame:
            yield Label(self.x + 12, self.y + 20, self.title, bold=True, anchor="start").svg()
            return
        texts = [(self.title, True)] * bool(self.title) + [(line, False) for line in self.lines]
        first = self.y + self.height / 2 + 14 - 9 * len(texts)
        for row, (text, bold) in enumerate(texts):
            yield Label(self.x + self.width / 2, first + 18 * row, text, bold).svg()


@dataclass(frozen=True)
class Label:
    """One line of text; ``y`` is its base line."""

    x: float
    y: float
    text: str
    bold: bool = False
    anchor: str = "middle"

    def svg(self) -> str:
        """The text."""
        weight = ' font-weight="600"' if self.bold else ""
        place = f'x="{self.x:g}" y="{self.y:g}" text-anchor="{self.anchor}"'
        return f"<text {place}{weight}>{escape(self.text)}</text>"


@dataclass(frozen=True)
class Line:
    """A faint vertical line: a participant in a sequence of calls."""

    x: float
    top: float
    bottom: float

    def svg(self) -> str:
        """The line."""
        ends = f'x1="{self.x:g}" y1="{self.top:g}" x2="{self.x:g}" y2="{self.bottom:g}"'
        return f'<line {ends} stroke="{GREY}" stroke-dasharray="2 4"/>'


@dataclass(frozen=True)
class Arrow:
    """A line through the points, with a head at the last one, and a number in a circle at ``mark``."""

    points: Sequence[tuple[float, float]]
    number: int | None = None
    mark: tuple[float, float] = (0, 0)

    def svg(self) -> Iterable[str]:
        """The line, then the number."""
        path = " ".join(f"{x:g},{y:g}" for x, y in self.points)
        yield (
            f'<polyline points="{path}" fill="none" stroke="currentColor" stroke-width="1.5"'
            ' marker-end="url(#head)"/>'
        )
        if self.number is not None:
            x, y = self.mark
            yield f'<circle cx="{x:g}" cy="{y:g}" r="11" fill="{BLUE}"/>'
            yield f'<text x="{x:g}" y="{y + 4.5:g}" text-anchor="middle" fill="#fff">{self.number}</text>'


Shape = Box | Label | Line | Arrow


@dataclass(frozen=True)
class Picture:
    """What one file shows; ``title`` is read to those who cannot see it."""

    name: str
    title: str
    width: float
    height: float
    shapes: Sequence[Shape]
    background: str = ""

    def svg(self) -> str:
        """The whole document."""
        body: list[str] = []
        if self.background:
            body.append(f'<rect width="{self.width:g}" height="{self.height:g}" fill="{self.background}"/>')
        for shape in self.shapes:
            drawn = shape.svg()
            body += [drawn] if isinstance(drawn, str) else drawn
        return DOCUMENT.format(
            width=self.width, height=self.height, title=escape(self.title), body="\n".join(body)
        )


def components() -> Picture:
    """Who talks to whom: the control plane above, one GPU node below."""
    left, inner, right, far = 30, 250, 470, 690
    return Picture(
        "components",
        "The components of gpushare on the control plane and on a GPU node",
        890,
        560,
        [
            Box(10, 66, 650, 154, "Control plane", colour=GREY, frame=True),
            Box(10, 290, 870, 260, "GPU node", colour=GREY, frame=True),
            Box(right, 10, 170, 40, "kubectl, controllers", colour=GREY),
            Box(left, 120, 170, 70, "kube-scheduler", colour=GREY),
            Box(inner, 120, 170, 70, "extender", ["ledger, Lease"]),
            Box(right, 120, 170, 70, "kube-apiserver", colour=GREY),
            Box(far, 120, 170, 70, "metrics API", ["or Prometheus"]),
            Box(left, 330, 170, 70, "library installer", ["MPS daemon"]),
            Box(inner, 330, 170, 70, "node agent", ["device plugin"]),
            Box(right, 330, 170, 70, "kubelet", ["containerd"], colour=GREY),
            Box(far, 330, 170, 70, "exporter"),
            Box(
                left, 460, 390, 70, "files of the node", ["library, limit files, regions, record, MPS pipes"]
            ),
            Box(right, 460, 170, 70, "container", ["libgpushare.so"], colour=GREEN),
            Box(far, 460, 170, 70, "GPU", ["driver, NVML"], colour=GREEN),
            Arrow([(555, 50), (555, 119)], 1, (555, 84)),
            Arrow([(520, 120), (520, 100), (115, 100), (115, 119)], 2, (320, 100)),
            Arrow([(200, 155), (249, 155)], 3, (224, 155)),
            Arrow([(420, 155), (469, 155)], 4, (444, 155)),
            Arrow([(590, 190), (590, 329)], 5, (590, 255)),
            Arrow([(470, 365), (421, 365)], 6, (446, 365)),
            Arrow([(335, 400), (335, 459)], 7, (335, 429)),
            Arrow([(335, 330), (335, 255), (520, 255), (520, 191)], 8, (427, 255)),
            Arrow([(555, 400), (555, 459)], 9, (555, 429)),
            Arrow([(420, 495), (469, 495)], 10, (444, 495)),
            Arrow([(640, 495), (689, 495)], 11, (664, 495)),
            Arrow([(775, 400), (775, 459)], 12, (775, 429)),
            Arrow([(775, 190), (775, 329)], 13, (775, 255)),
            Arrow([(640, 155), (689, 155)], 14, (664, 155)),
            Arrow([(115, 400), (115, 459)], 15, (115, 429)),
        ],
    )


LANES: Final = ["user", "API server", "kube-scheduler", "extender", "kubelet", "node agent", "container"]
CALLS: Final = [
    (0, 1, "create pod"),
    (1, 2, "pending pod"),
    (2, 3, "filter, prioritize"),
    (3, 2, "nodes, scores"),
    (2, 3, "bind"),
    (3, 3, "choose GPU,|reserve units"),
    (3, 1, "POST binding"),
    (1, 4, "bound pod"),
    (4, 5, "Allocate"),
    (5, 5, "match pod, write|limit and record"),
    (5, 4, "GPU, mounts"),
    (4, 6, "start"),
    (6, 6, "library enforces|limit"),
    (4, 1, "pod is running"),
]
"""From one lane to another, or a note in one lane."""


def life_of_a_pod() -> Picture:
    """The calls from the creation of a pod until it runs, in order of time."""
    step, top, pitch = 140, 56, 48
    width, height = step * len(LANES), top + pitch * len(CALLS) + 10
    centre = [step * (lane + 0.5) for lane in range(len(LANES))]
    shapes: list[Shape] = []
    for lane, name in enumerate(LANES):
        colour = BLUE if name in ("extender", "node agent") else GREY
        shapes.append(Box(centre[lane] - 66, 10, 132, 34, name, colour=colour))
        notes = [top + pitch * row for row, call in enumerate(CALLS) if call[:2] == (lane, lane)]
        ends = [44, *(y for note in notes for y in (note + 2, note + 46)), height - 6]
        shapes += [Line(centre[lane], *ends[at : at + 2]) for at in range(0, len(ends), 2)]
    for row, (source, target, text) in enumerate(CALLS):
        y, a, b = top + pitch * (row + 0.5), centre[source], centre[target]
        if source == target:
            shapes.append(Box(a - 66, y - 22, 132, 44, "", text.split("|"), colour=GREEN))
        else:
            side = 1 if b > a else -1
            shapes += [Arrow([(a + 3 * side, y), (b - 3 * side, y)]), Label(a + side * step / 2, y - 7, text)]
    return Picture("life-of-a-pod", "The life of a pod, from filter to running", width, height, shapes)


def layers() -> Picture:
    """The packages of ``gpushare/``; each row may import the rows below it."""
    rows: list[tuple[str, list[str]]] = [
        ("tools", ["cli"]),
        ("services", ["extender", "deviceplugin", "exporter", "metricsapi", "installer", "mpsd", "board"]),
        ("shared", ["isolation", "mps", "overview"]),
        ("I/O", ["adapters", "monitoring", "runtime"]),
        ("protocols", ["ports"]),
        ("simulation", ["simulation"]),
        ("decisions", ["scheduling", "kubescheduler"]),
        ("values", ["model"]),
        ("names", ["contract", "errors"]),
    ]
    shapes: list[Shape] = []
    left, width, height, gap = 116, 764, 44, 16
    for row, (name, packages) in enumerate(rows):
        y = 10 + row * (height + gap)
        each = (width - 6 * (len(packages) - 1)) / len(packages)
        pure = name in ("simulation", "decisions", "values")
        colour = GREEN if pure else BLUE if name in ("tools", "services") else GREY
        shapes.append(Label(10, y + height / 2 + 5, name, anchor="start"))
        shapes += [
            Box(left + place * (each + 6), y, each, height, package, colour=colour)
            for place, package in enumerate(packages)
        ]
    shapes.append(Arrow([(102, 12), (102, 10 + len(rows) * (height + gap) - gap)]))
    return Picture("layers", "The layers of the packages", 890, len(rows) * (height + gap) + 4, shapes)


def shares() -> Picture:
    """Three pods on one GPU, and a fourth that waits."""
    left, unit, top, height = 250, 42, 66, 76
    pods = [
        Box(left + 4 * unit * i + 4, top + 30, 4 * unit - 8, height, f"notebook-{i + 1}", lines, GREEN)
        for i, lines in enumerate([("4 units", "4308 MiB at most")] * 3)
    ]
    waiting = Box(left + 4, top + 138, 4 * unit - 8, 44, "notebook-4", ["4 units, pending"], GREY)
    reason = "asked 4, at most 2 of 14 free on GPU 0"
    return Picture(
        "shares",
        "Three notebooks share one GPU; a fourth one is pending, with the reason",
        left + 14 * unit + 22,
        262,
        [
            Label(left - 8, 34, "aliyun.com/gpu-mem: 4", bold=True, anchor="start"),
            Box(16, top + 30, 170, height, "kube-scheduler", ["with the extender"]),
            Arrow([(190, top + 30 + height / 2), (left - 12, top + 30 + height / 2)]),
            Box(left - 8, top - 10, 14 * unit + 16, height + 52, "Tesla T4: 14 units of 1 GiB", frame=True),
            *pods,
            Box(left + 12 * unit + 4, top + 30, 2 * unit - 8, height, "2 free", colour=GREY),
            waiting,
            Label(left + 4 * unit + 12, top + 165, reason, anchor="start"),
        ],
        background="#ffffff",
    )


README: Final = Path(__file__).parent / "shares.svg"
ALL: Final = (components(), life_of_a_pod(), layers())


def main() -> None:
    """Write all pictures."""
    PICTURES.mkdir(exist_ok=True)
    for picture in ALL:
        (PICTURES / f"{picture.name}.svg").write_text(picture.svg())
    README.write_text(shares().svg())


if __name__ == "__main__":
    main()
