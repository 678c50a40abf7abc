"""The moving portrait: how one photograph of a face is made to speak, blink and feel.

The story: `services.video.framing` cuts the picture around its one face, `anatomy` measures that face in millimetres,
`fields` turns each control (an action unit, the jaw, a blink, a turn of the head) into a displacement of the picture,
`shading`, `eyes` and `mouth` make what a photograph of a resting face does not show, `retouch` paints anew what it
shows wrong once lids close and lips part, `glasses` takes glasses off, and `rig` keeps all of it. `drawing` draws one
frame from a set of control weights: `warping` moves the picture, `openings` lays eyes and mouth under lids and lips.
`acting` says which weights: from the emotion, from the visemes and the sound (`lips`), and from the passing time
(`idle`). `backends/portrait.py` puts it behind the port.
"""
