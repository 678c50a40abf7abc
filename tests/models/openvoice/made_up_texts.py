# ruff: noqa: RUF001 - signs of every script are meant
"""Texts of random words, signs and numbers in MeloTTS' languages; the same ones each time."""

import importlib
import random
import re
from collections.abc import Iterator

LETTERS = {"es": "abcdefghijklmnopqrstuvwxyzáéíóúñü", "fr": "abcdefghijklmnopqrstuvwxyzàâçéèêëîïôùû"}
ODD = {
    "es": "1789 21 3 2005 1000000 covid19 A&B (sí) «no» ¿qué? ¡ay! EE.UU. ... … ' / % * + = @ ñandú iPhone — ~ x² ½ °",
    "fr": "1789 21 71 3 2005 1000000 1er 2e covid19 A&B (oui) l'eau aujourd'hui c'est-à-dire ... … / % * + = œuf — ~ °",
}
JAPANESE = (
    "私は 彼女は 先生が 昨日、弟が 友達の田中さんは 隣の犬が 髙橋社長は 4人の客が そこの町の店は ヴェネツィアで",
    "新しい本を 古い手紙を 朝ご飯を 東京で音楽を 図書館で宿題を 2匹の魚を 海岸で写真を ラーメンと餃子を 1,980円の靴を",
    "とても 少し 3.5倍 ちょっと すぐに、 「もちろん」 ・・・ 二度と 2024年から $20で フィッシュ・アンド・チップスと",
    "買いました。 忘れた？ 食べている。 聞いていた！ 始めるつもりだ。 作ってくれた。 撮りたいです… ください ワッ。",
)
KOREAN = (
    "나는 우리가 선생님께서 친구들이 어머니는 강아지가 한국은 IT회사는 옆집 할머니가",
    "밥을 값을 꽃을 3권을 12개를 넓은 앞문을 국물을 mp3 file을 2024년 3일에 흙냄새를 신라의 물건을 음악을 닭고기를",
    "먹었습니다. 읽는다! 잃어버렸어요. 좋아해요? 있다. 않았다, 갔어요. 거예요. 찾았다. 넣었지. 끓인다… 맡았습니다.",
)
CHINESE = (
    "我 你 他们 小王 这个孩子 我的朋友 老李 妈妈 李小姐 大家",
    "昨天 今天早上 一直 不 都 也不 正在 已经 很想 只好",
    "看一看 买了 喜欢 想起来 走进去 听一听 不要 吃不了 找到了 读过 写 洗洗",
    "一本书 一个苹果 桌子上的花 纸老虎 展览馆 水果 一块儿 第一名 五百一十个人 女子 石头 machine learning 儿子 AI 3.14",
    "吧。 呢？ 啊！ ， 。 …… 了。 ； ——",
)


def made_up(language: str, count: int) -> Iterator[str]:
    """Returns so many texts."""
    chance = random.Random(3)
    if language in LETTERS:
        odd = ODD[language].split()
        words = sorted(set(re.findall(r"[^\W\d]+", " ".join(odd)))) + _words(language, chance)
        for _ in range(count):
            text = []
            for _ in range(chance.randint(1, 20)):
                new = "".join(chance.choices(LETTERS[language], k=chance.randint(1, 12)))
                word = chance.choices([chance.choice(words), chance.choice(odd), new], [78, 14, 8])[0]
                text.append(
                    (word.capitalize() if chance.random() < 0.15 else word) + chance.choice([*[""] * 8, *",.!?;:"])
                )
            yield " ".join(text)
    else:
        joint, parts = {"ja": ("", JAPANESE), "ko": (" ", KOREAN), "zh": ("", CHINESE)}[language]
        for _ in range(count):
            yield joint.join(chance.choice(part.split()) for part in parts)


def _words(language: str, chance: random.Random) -> list[str]:
    crf_words = importlib.import_module("services.tts.openvoice.text.crf_words")
    rows = crf_words.Dictionary(f"gruut_lang_{language}")._words.execute("SELECT word FROM word_phonemes ORDER BY id")
    return chance.sample([word for (word,) in rows], 4000)
