"""The folds and hollows that an expression deepens, as light and dark laid over the portrait.

Warping moves skin but does not fold it; these maps draw the fold's shadow and the bulge's light beside it.
"""

import numpy as np

from services.video.portrait.anatomy import Anatomy, Floats

MAPS = (
    *("nasolabial_l", "nasolabial_r", "furrow", "forehead", "crows_feet"),
    *("under_eye", "sockets", "nose", "marionette", "chin"),
)
SHADING_PX = 256


def build(anatomy: Anatomy, size_px: int) -> Floats:
    """Makes a face's maps, float32 (maps, SHADING_PX, SHADING_PX): natural logs of a gain, in the order of `MAPS`."""
    axis = (np.arange(SHADING_PX) + 0.5) * (size_px / SHADING_PX) - 0.5
    px_x, px_y = np.meshgrid(axis, axis)
    return _Folds(anatomy, *anatomy.to_mm(px_x, px_y)).maps()


class _Folds:
    def __init__(self, anatomy: Anatomy, x: Floats, y: Floats) -> None:
        self.points, self.x, self.y = anatomy.points, x, y

    def maps(self) -> Floats:
        left, right = self.nasolabial(False), self.nasolabial(True)
        brows = [self.furrow(), self.forehead()]
        eyes = [self.crows_feet(), self.under_eye(), self.sockets()]
        return np.stack([left, right, *brows, *eyes, self.nose(), self.marionette(), self.chin()]).astype(np.float32)

    def nasolabial(self, right: bool) -> Floats:
        wing, corner = (self.points[358], self.points[291]) if right else (self.points[129], self.points[61])
        out = 1.0 if right else -1.0
        path = [_at(wing, out * 2, -1), _at((wing + corner) / 2, out * 4.5, -2), _at(corner, out * 6.5, 0.5)]
        fold = self._fold(path, 4.2, -0.17, side=out)
        cheek = self._bell(_at((wing + corner) / 2, out * 13, -6), 9, 8, 0.06)
        return fold + cheek

    def furrow(self) -> Floats:
        middle = (self.points[107] + self.points[336]) / 2
        lines = np.zeros_like(self.x)
        for out in (-1.0, 1.0):
            path = [_at(middle, out * 4.6, 8), _at(middle, out * 3.8, 1), _at(middle, out * 5.2, -7)]
            lines += self._fold(path, 3.2, -0.10, side=out)
        return lines + self._bell(_at(middle, 0, 3), 9, 6, -0.06)

    def forehead(self) -> Floats:
        brow, top = float(self.points[[107, 336], 1].mean()), float(self.points[10, 1])
        lines = np.zeros_like(self.x)
        half = float(self.points[334, 0] - self.points[105, 0]) / 2
        centre = float(self.points[9, 0])
        for index, part in enumerate((0.30, 0.50, 0.68)):
            row = brow + part * (top - brow)
            wave = row + 1.6 * ((self.x - centre) / half) ** 2 + 0.5 * np.sin(self.x / 5.0 + 2.1 * index)
            off = self.y - wave
            reach = np.exp(-(((self.x - centre) / (half * (1.05 - 0.12 * index))) ** 4))
            lines += reach * (-0.075 * np.exp(-((off / 0.9) ** 2)) + 0.040 * np.exp(-(((off - 2.2) / 1.6) ** 2)))
        return lines

    def crows_feet(self) -> Floats:
        lines = np.zeros_like(self.x)
        for corner, out in ((self.points[33], -1.0), (self.points[263], 1.0)):
            for rise in (-4.5, -0.5, 4.0):
                steps = ((4, 0.35), (8, 0.8), (11.5, 1.3))
                path = [_at(corner, out * along, rise * part) for along, part in steps]
                lines += self._fold(path, 0.9, -0.09, side=0.0)
        return lines

    def under_eye(self) -> Floats:
        lines = np.zeros_like(self.x)
        for ids in ((145, 144, 153), (374, 373, 380)):
            middle = self.points[list(ids)].mean(axis=0)
            path = [_at(middle, -9, 4.2), _at(middle, 0, 6.2), _at(middle, 9, 4.2)]
            lines += self._fold(path, 1.8, -0.10, side=0.0) + self._bell(_at(middle, 0, 2.4), 8, 1.6, 0.05)
        return lines

    def sockets(self) -> Floats:
        """The shadow of lowered brows: between brow and lid, deepest at the nose."""
        lines = np.zeros_like(self.x)
        for brow, corner, middle, out in ((107, 133, 159, -1.0), (336, 362, 386, 1.0)):
            inner = (self.points[brow] + self.points[corner]) / 2
            lines += self._bell(inner, 7, 6.5, -0.16)
            lines += self._bell(_at(self.points[middle], -out * 2, -4), 10, 4, -0.10)
        return lines

    def nose(self) -> Floats:
        middle = (self.points[193] + self.points[417]) / 2
        lines = np.zeros_like(self.x)
        for row, depth in ((-3.0, -0.13), (0.2, -0.15), (3.4, -0.12)):
            path = [_at(middle, -6.5, row + 1.8), _at(middle, 0, row), _at(middle, 6.5, row + 1.8)]
            lines += self._fold(path, 1.3, depth, side=0.0)
            lines += self._bell(_at(middle, 0, row + 1.6), 5, 0.9, 0.05)
        for wing, out in ((self.points[129], -1.0), (self.points[358], 1.0)):
            side = [_at(wing, -out * 3.5, -16), _at(wing, -out * 0.5, -8), _at(wing, out * 1.5, -2)]
            lines += self._fold(side, 1.8, -0.12, side=out)
        return lines

    def marionette(self) -> Floats:
        lines = np.zeros_like(self.x)
        for corner, out in ((self.points[61], -1.0), (self.points[291], 1.0)):
            path = [_at(corner, out * 1.0, 1.5), _at(corner, out * 3.2, 6.5), _at(corner, out * 3.6, 12)]
            lines += self._fold(path, 2.0, -0.15, side=out)
        return lines

    def chin(self) -> Floats:
        middle = (self.points[17] + self.points[199]) / 2
        path = [_at(middle, -11, 2.5), _at(middle, 0, -0.5), _at(middle, 11, 2.5)]
        return self._fold(path, 2.2, -0.14, side=0.0) + self._bell(_at(middle, 0, 8), 9, 5, 0.05)

    def _fold(self, path: list[Floats], width: float, depth: float, side: float) -> Floats:
        """A soft dark line along a curve through three points, fading at its ends; light beyond it on `side`."""
        start, middle, end = (np.asarray(point, np.float32) for point in path)
        bend = 2 * middle - (start + end) / 2  # control point of the parabola through all three
        best = np.full_like(self.x, 1e9)
        along = np.zeros_like(self.x)
        beside = np.zeros_like(self.x)
        for t in np.linspace(0, 1, 33):
            place = (1 - t) ** 2 * start + 2 * t * (1 - t) * bend + t * t * end
            dx, dy = self.x - place[0], self.y - place[1]
            distance = dx * dx + dy * dy
            nearer = distance < best
            best = np.where(nearer, distance, best)
            along = np.where(nearer, t, along)
            beside = np.where(nearer, dx, beside)
        fade = np.sin(np.pi * np.clip(along, 0.02, 0.98)) ** 0.7
        dark: Floats = depth * fade * np.exp(-best / (2 * (width / 2) ** 2 + 0.2))
        if not side:
            return dark
        light: Floats = -0.4 * depth * fade * np.exp(-((np.sqrt(best) - 1.3 * width) ** 2) / (2 * (0.7 * width) ** 2))
        return np.asarray(dark + light * (np.sign(beside) == np.sign(side)))

    def _bell(self, place: Floats, wide: float, high: float, depth: float) -> Floats:
        return np.asarray(depth * np.exp(-(((self.x - place[0]) / wide) ** 2) - ((self.y - place[1]) / high) ** 2))


def _at(point: Floats, right: float, down: float) -> Floats:
    """A place beside a landmark, mm."""
    return np.array([point[0] + right, point[1] + down], np.float32)
