"""What the user said of themselves is told back to them, or not at all."""

import pytest

from services.mllm.reply.second_person import clause, topic


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("My dog Rex is very ill.", "your dog Rex was very ill"),
        ("I am so nervous about my driving test!", "you were so nervous about your driving test"),
        ("I'm alone and my phone is empty.", "you were alone"),
        ("I\u2019ve been waiting for my visa.", "you had been waiting for your visa"),
        ("I've got a big race on Saturday and my nerves are killing me.", "you had a big race on Saturday"),
        ("I have to give a speech.", "you had to give a speech"),
        ("I will have an operation on my knee.", "you would have an operation on your knee"),
        (
            "There's a court letter in my mailbox and I'm too frightened to open it.",
            "there was a court letter in your mailbox",
        ),
        ("I was alone and I wasn't well.", "you were alone"),
        ("We want to buy a house.", "you wanted to buy a house"),
        ("My sister Lena is getting married in May.", "your sister Lena was getting married in May"),
        ("My boss shouted at me in front of us all.", "your boss shouted at you in front of you all"),
        ("Well, I moved to Berlin and I don't know anybody.", "you moved to Berlin"),
        ("I'm only calm when my dog is near.", "you were only calm when your dog was near"),
        ("The nurse held my hand.", "the nurse held your hand"),
        # A time that counts from then is left out at either end.
        ("Today my cat Minka ran away.", "your cat Minka ran away"),
        ("I lost my job last week.", "you lost your job"),
        ("My fianc\u00e9 is very ill.", "your fiance was very ill"),
        # Apostrophes are put back.
        ("im getting married in May", "you were getting married in May"),
        ("ive got a new job", "you had a new job"),
        ("my sister doesnt like my boss", "your sister didn't like your boss"),
    ],
)
def test_a_plain_statement_is_told_in_the_second_person_and_the_past(said: str, told: str) -> None:
    assert clause(said) == told


@pytest.mark.parametrize(
    "said",
    [
        "Is my dog ill?",
        "You never listen to me.",
        "Please help me with my dog.",
        "So tired.",
        "Rain on the window, pancakes on the table.",
        "He is so mean to me.",
        "I saw her face in the crowd.",
        "It broke my heart.",
        "If I fail my exam I lose my place.",
        "I think my dog is ill.",
        "I'm freaking out about tomorrow.",
        "I'll never forget that.",
        "I failed 3 times.",
        "I walked in the rain " + "and in the snow " * 5 + "to see the sea.",
        "Dog.",
        "",
    ],
)
def test_what_is_no_plain_statement_of_the_user_is_not_told(said: str) -> None:
    assert clause(said) == ""


@pytest.mark.parametrize(
    ("said", "named"),
    [
        ("My dog Rex is very ill.", "your dog Rex"),
        ("I failed my driving test again today.", "your driving test"),
        ("My husband left me.", "your husband"),
        ("My neighbour plays drums all night.", "your neighbour"),
        ("My phone broke.", "your phone"),
        ("I found my old Game Boy.", "your old Game Boy"),
        ("I saw my kids' faces.", "your kids"),
        ("There's a letter in my mailbox from my aunt Ida.", "your aunt Ida"),
        # Where the noun ends is not sure, or there is nothing to speak of.
        ("My stomach hurts.", ""),
        ("There's a letter in my mailbox.", ""),
        ("It is my fault.", ""),
        ("I made up my mind.", ""),
        ("The rain has stopped.", ""),
    ],
)
def test_what_the_user_calls_theirs_is_named_as_theirs(said: str, named: str) -> None:
    assert topic(said) == named
