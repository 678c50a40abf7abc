"""The emotion banks: what identities can show. The default is all that the wheel has, and is never stored."""

import emotions
from services.common.errors import InvalidRequest, NotFound
from services.memory import keys
from services.memory.checks import check_bank, check_id
from services.memory.domain import BANK_DEFAULT, EmotionBank
from services.memory.records import Codec, damaged
from services.memory.store import Store, content_of

_BANKS = Codec(EmotionBank)


class Banks:
    """The emotion banks in `store`: each tenant has its own."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def has(self, tenant: str, name: str) -> bool:
        """Tells whether there is a bank of that name."""
        return name == BANK_DEFAULT or self._store.get(keys.bank(tenant, name)) is not None

    def get(self, tenant: str, name: str) -> EmotionBank:
        """Returns a bank.

        Raises:
            NotFound: There is none of that name.
            Damaged: The stored object is not what was written, or has what this version's wheel has not.
        """
        check_id("tenant", tenant)
        check_id("emotion_bank", name)
        if name == BANK_DEFAULT:
            wheel = emotions.load()
            return EmotionBank(BANK_DEFAULT, wheel.classes, wheel.styles)
        key = keys.bank(tenant, name)
        content = content_of(self._store.get(key))
        if content is None:
            raise NotFound(f"emotion bank {name!r} is unknown; store it first, or use {BANK_DEFAULT!r}")
        bank = _BANKS.decode(key, content)
        try:
            check_bank(bank)
        except InvalidRequest as error:
            raise damaged(key, f"it does not fit the emotion wheel of this version ({error})") from error
        return bank

    def put(self, tenant: str, bank: EmotionBank) -> None:
        """Stores a bank, or its new version.

        Raises:
            InvalidRequest: It has nothing to show, or something that the wheel has not, or is the default.
        """
        check_id("tenant", tenant)
        check_bank(bank)
        if bank.name == BANK_DEFAULT:
            raise InvalidRequest("emotion_bank.name", f"{BANK_DEFAULT!r} is what the wheel has; choose another name")
        self._store.put(keys.bank(tenant, bank.name), _BANKS.encode(bank))
