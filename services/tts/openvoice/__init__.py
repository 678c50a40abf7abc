"""OpenVoice and MeloTTS in plain PyTorch, and what turns a text and a voice into a call of them.

Three models, each read from an official folder (`config.json`, `checkpoint.pth`) as it was published:

* `synthesizer.load_base_speaker(folder, device, dtype) -> BaseSpeaker`: OpenVoice V1's speaker with styles, 22.05 kHz.
* `melo.load_melo(folder, device, dtype) -> Melo`: MeloTTS, 44.1 kHz.
* `converter.load_converter(folder, device, dtype) -> Converter`: the tone colour converter, V1 or V2, 22.05 kHz.

The networks are written from the papers and from what upstream's code does, and equal it: see
`tests/models/openvoice/against_upstream.py`. They are made for a server:

* A batch says what its rows would say alone: everything behind a row's end stays zero (`masks`), and noise belongs to
  the row (`noise`).
* Sound comes in pieces with the same samples as the whole (`Vocoder.pieces`), also while the speech that is converted
  is still growing (`stream`).
* Sound goes in and comes out as float32; `dtype` is that of the networks. What they compute keeps no gradients.
* `vocoder.compile(dynamic=True)` hands a model's vocoder, nine tenths of the work, to `torch.compile`.

Loading raises FileNotFoundError (which file) or ValueError (which keys of the checkpoint or of the configuration).
"""
