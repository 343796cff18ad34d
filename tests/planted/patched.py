"""Every name of the product that a deliberate fault puts something else under, in one table.

A fault says `changed(Patched.SEGMENT_SEAL, …)`. Where a function, a class or a module of the product gets another name,
its line here follows, and no fault does.
"""

import pkgutil
from enum import Enum, unique
from typing import Any

from tests.support.project import NAME


@unique
class Patched(Enum):
    """A name in a module, or in a class of it, as `module:name` or `module:Class.name`."""

    # journal
    DIRECTORY_LOCK_IS_OURS = "oms_journal.journal.lock:DirectoryLock.is_ours"
    DIRECTORY_LOCK_WITNESS = "oms_journal.journal.lock:DirectoryLock.witness"
    LOCK_CLAIM = "oms_journal.journal.lock:_claim"
    RESERVE_FILL = "oms_journal.journal.reserve:Reserve.fill"

    # journal/format
    FOOTER_DECODE_HEADER = "oms_journal.journal.format.footer:decode_header"
    FOOTER_XXH3 = "oms_journal.journal.format.footer:xxh3"

    # journal/reading
    DATAFILE_DECODE_HEADER = "oms_journal.journal.reading.datafile:decode_header"
    RECORDS_XXH3 = "oms_journal.journal.format.records:xxh3"
    MESSAGE_XXH3 = "oms_journal.journal.reading.message:xxh3"
    WALK_VOUCHED = "oms_journal.journal.reading.walk:Walk.vouched"
    WALK_TAKE = "oms_journal.journal.reading.walk:_take"
    WALK_DECODE_FRAME = "oms_journal.journal.reading.walk:decode_frame"

    # journal/writing
    DRAFT_XXH3 = "oms_journal.journal.writing.draft:xxh3"
    GROUP_COMMIT_HAND_ON = "oms_journal.journal.writing.group_commit:GroupCommit._hand_on"
    GROUP_COMMIT_COMMIT = "oms_journal.journal.writing.group_commit:GroupCommit.commit"
    GROUP_COMMIT_LEAD = "oms_journal.journal.writing.group_commit:GroupCommit.lead"
    GROUP_COMMIT_SUBMIT = "oms_journal.journal.writing.group_commit:GroupCommit.submit"
    SEGMENT_FILL_WITH_ZEROS = "oms_journal.journal.writing.segment:Segment._fill_with_zeros"
    SEGMENT_GIVE_NAME = "oms_journal.journal.writing.segment:Segment.give_name"
    SEGMENT_SEAL = "oms_journal.journal.writing.segment:Segment.seal"
    SINGLE_XXH3 = "oms_journal.journal.writing.single:xxh3"
    SUPPLY_CREATE = "oms_journal.journal.writing.supply:Supply._create"

    # index
    DUPLICATE_WINDOW_LATER = "oms_journal.index.duplicates:DuplicateWindow.later"
    DUPLICATE_WINDOW_LOAD = "oms_journal.index.duplicates:DuplicateWindow.load"
    DUPLICATE_WINDOW_REPLAY = "oms_journal.index.duplicates:DuplicateWindow.replay"
    KEYED_FORGET_FILE = "oms_journal.index.keyed:Keyed.forget_file"
    INDEX_ADD = "oms_journal.index.live:Index._add"
    INDEX_MOVE = "oms_journal.index.live:Index._move"
    INDEX_REPLAY_KEYS = "oms_journal.index.live:Index._replay_keys"
    INDEX_HOLD_UP_TO = "oms_journal.index.live:Index.hold_up_to"
    INDEX_IS_FREE = "oms_journal.index.live:Index.is_free"
    INDEX_SETTLE_TERMS = "oms_journal.index.live:Index.settle_terms"
    LIVE_REMOVED = "oms_journal.index.live:_removed"
    CLOCKED_ADD = "oms_journal.index.readiness:_Clocked.add"
    GROUPS_ADD = "oms_journal.index.readiness:Groups.add"
    READINESS_EXPIRE = "oms_journal.index.readiness:Readiness._expire"
    READINESS_LOAD = "oms_journal.index.readiness:Readiness.load"
    RETURNED_LOAD = "oms_journal.index.returned:Returned.load"

    # recovery
    EXAMINATION_DISOWNED = "oms_journal.recovery.examination:_disowned"
    EXAMINATION_GOOD_END = "oms_journal.recovery.examination:_good_end"
    EXAMINATION_LOW_WATER_OF = "oms_journal.recovery.examination:low_water_of"
    FINDINGS_PUT_IN_PLACE = "oms_journal.recovery.findings:put_in_place"
    NUMBERING_JUMP_OF = "oms_journal.recovery.numbering:_jump_of"
    COUNTERS_INIT = "oms_journal.recovery.numbering:Counters.__init__"
    COUNTERS_BEFORE = "oms_journal.recovery.numbering:Counters.before"
    REPAIRER_BUILD = "oms_journal.recovery.repair:Repairer._build"
    REPAIRER_SEAL = "oms_journal.recovery.repair:Repairer._seal"
    REPAIRER_ARCHIVE = "oms_journal.recovery.repair:Repairer.archive"
    SPLIT_JUMP = "oms_journal.recovery.restoring:Split.jump"
    RECOVERY_OPTIONS_INIT = "oms_journal.recovery.startup:RecoveryOptions.__init__"
    START_CHECK_POLICY = "oms_journal.recovery.startup:_Start._check_policy"
    START_INTEND_TO_HOLD = "oms_journal.recovery.startup:_Start._intend_to_hold"
    STARTUP_TRUNCATE = "oms_journal.recovery.startup:truncate_at_first_damage"
    STARTUP_NUMBERS_OF_LOST = "oms_journal.recovery.startup:numbers_of_lost"
    STARTUP_REFUSE_UNFINISHED = "oms_journal.recovery.startup:refuse_unfinished"
    STARTUP_SUSPECTS = "oms_journal.recovery.startup:suspects"
    SURVEY_FILES_OF_PASSED_OWNERS = "oms_journal.recovery.survey:files_of_passed_owners"
    VALIDATION_SEALED = "oms_journal.recovery.validation:_sealed"
    VALIDATION_LOW_WATER_OF = "oms_journal.recovery.validation:low_water_of"

    # database
    ASYNCHRONOUS_MESSAGE_NUMBER = "oms_journal.database.asynchronous:message_number"
    COMMIT_BLOCK_ENTER = "oms_journal.database.commits.block:CommitBlock.__enter__"
    COMMIT_BLOCK_OPEN = "oms_journal.database.commits.block:CommitBlock._open"
    COMMIT_BLOCK_ADD_MANY = "oms_journal.database.commits.block:CommitBlock.add_many"
    BLOCK_NUMBERS_AT = "oms_journal.database.commits.block:_numbers_at"
    CLEANUP_COMMIT_MARK = "oms_journal.database.cleanup:Cleanup._commit_mark"
    CLEANUP_DOOMED = "oms_journal.database.cleanup:Cleanup._doomed"
    CLEANUP_MOVE_BATCH = "oms_journal.database.cleanup:Cleanup._move_batch"
    CLEANUP_REMOVE = "oms_journal.database.cleanup:Cleanup._remove"
    CLEANUP_CARRIED = "oms_journal.database.cleanup:carried"
    CLEANUP_FILE_FACTS = "oms_journal.database.cleanup:file_facts"
    CONSUMERS_INIT = "oms_journal.database.consumers.consumers:Consumers.__init__"
    CONSUMERS_GIVE_BACK = "oms_journal.database.consumers.consumers:Consumers.give_back"
    CONSUMERS_HAND_OUT = "oms_journal.database.consumers.consumers:Consumers._hand_out"
    CONSUMERS_PEEK = "oms_journal.database.consumers.consumers:Consumers.peek"
    CONSUMERS_PUT_BACK = "oms_journal.database.consumers.consumers:Consumers._put_back"
    CONSUMERS_REFILL = "oms_journal.database.consumers.consumers:Consumers._refill"
    CONSUMERS_SETTLE = "oms_journal.database.consumers.consumers:Consumers.settle"
    CONSUMERS_WAIT = "oms_journal.database.consumers.consumers:Consumers.wait"
    CONSUMERS_TAKE = "oms_journal.database.consumers.consumers:Consumers.take"
    IN_HAND_CONTAINS = "oms_journal.database.consumers.consumers:_InHand.__contains__"
    RETURNS_COMMIT_BUILDER = "oms_journal.database.consumers.returns:CommitBuilder"
    RETURNS_ENTRY = "oms_journal.database.consumers.returns:Returns.entry"
    DATABASE_IN_HAND = "oms_journal.database.database:in_hand"
    MESSAGE_DATABASE_ABANDON = "oms_journal.database.database:MessageDatabase._abandon"
    MESSAGE_DATABASE_READABLE = "oms_journal.database.database:MessageDatabase._readable"
    DATABASE_FLAG = "oms_journal.database.database:flag"
    DATABASE_MESSAGE_NUMBER = "oms_journal.database.database:message_number"
    DATABASE_PLAIN_TEXT = "oms_journal.database.database:plain_text"
    DRAFTING_ADD_MANY = "oms_journal.database.commits.drafting:Drafting.add_many"
    HANDING_GIVE_UP = "oms_journal.database.consumers.handing:Handing.give_up"
    HANDING_LET_GO = "oms_journal.database.consumers.handing:Handing.let_go"
    HANDING_RELEASE_IF_HELD = "oms_journal.database.consumers.handing:Handing.release_if_held"
    HANDING_GIVE_BACK = "oms_journal.database.consumers.handing:Handing.give_back"
    ENCODER_PAYLOADS = "oms_journal.database.commits.encode:Encoder.payloads"
    ENCODER_PRODUCER = "oms_journal.database.commits.encode:Encoder.producer"
    ENCODER_VALUE = "oms_journal.database.commits.encode:Encoder.value"
    ENCODE_EVERY = "oms_journal.database.commits.encode:every"
    ENCODE_PLAIN_BYTES = "oms_journal.database.commits.encode:plain_bytes"
    ENCODE_PLAIN_PROPERTIES = "oms_journal.database.commits.encode:plain_properties"
    ENCODE_PLAIN_TEXT = "oms_journal.database.commits.encode:plain_text"
    HOLDS_SETTLE = "oms_journal.database.holds:Holds.settle"
    HOLDS_WRITE = "oms_journal.database.holds:Holds.write"
    LIMITED_LEDGER_APPLY_EFFECT = "oms_journal.database.commits.limited:LimitedLedger._apply_effect"
    LIMITS_LEAVE_LINE = "oms_journal.database.commits.limits:Limits.leave_line"
    LIMITED_LEDGER_REMOVE = "oms_journal.database.commits.limited:LimitedLedger._remove"
    LIMITED_LEDGER_WITHDRAW = "oms_journal.database.commits.limited:LimitedLedger.withdraw"
    LIMITS_INIT = "oms_journal.database.commits.limits:Limits.__init__"
    LIMITS_COUNT = "oms_journal.database.commits.limits:Limits._count"
    LIMITS_REMOVED_FROM = "oms_journal.database.commits.limits:_removed_from"
    LIMITED_GIVE_UP = "oms_journal.database.commits.limited:_give_up"
    ADDED_NUMBER = "oms_journal.database.database:added_number"
    DRAFTING_PURGE = "oms_journal.database.commits.drafting:Drafting.purge"
    LEDGER_INIT = "oms_journal.database.commits.ledger:Ledger.__init__"
    LEDGER_SERVE = "oms_journal.database.commits.ledger:Ledger._serve"
    LEDGER_APPLY_EFFECT = "oms_journal.database.commits.ledger:Ledger._apply_effect"

    # database/door
    CLIENT_DECODE_ADDED = "oms_journal.database.door.client:decode_added"

    # database/backup
    BACKUP_MANIFEST_OF = "oms_journal.database.backup.backup:Backup._manifest_of"
    FILE_COPIER_INIT = "oms_journal.database.backup.files:FileCopier.__init__"
    FILE_COPIER_EXTEND = "oms_journal.database.backup.files:FileCopier._extend"
    BACKUP_RESTORE_SPLIT = "oms_journal.database.backup.restore:Split"
    BACKUP_RESTORE_MANIFEST = "oms_journal.database.backup.restore:_manifest"
    BACKUP_RESTORE_WENT_ON = "oms_journal.database.backup.restore:_went_on"
    SNAPSHOT_READER_WITH_MARKS = "oms_journal.database.backup.snapshot:SnapshotReader._with_marks"
    BACKUP_TARGET_PUBLISH = "oms_journal.database.backup.target:BackupTarget.publish"

    # broker
    ANSWERS_PLAIN_BYTES = "oms_journal.broker.answers:plain_bytes"
    ANSWERS_PLAIN_PROPERTIES = "oms_journal.broker.answers:plain_properties"
    ANSWERS_PLAIN_TEXT = "oms_journal.broker.answers:plain_text"
    CLOCKS_TICKED = "oms_journal.broker.kernel.state.clock:Clocks.ticked"

    # broker/drivers
    JOURNAL_STORE_TAKE_HOLD = "oms_journal.broker.drivers.journal:JournalStore._take_hold"
    JOURNAL_STORE_CLOSE = "oms_journal.broker.drivers.journal:JournalStore.close"
    JOURNAL_STORE_COMMIT_MANY = "oms_journal.broker.drivers.journal:JournalStore.commit_many"
    STORE_DRIVER_DISCONNECT = "oms_journal.broker.drivers.driver:StoreDriver.disconnect"
    JOURNAL_STORE_HIGHEST = "oms_journal.broker.drivers.journal:JournalStore.highest"
    JOURNAL_STORE_MESSAGE_COUNT = "oms_journal.broker.drivers.journal:JournalStore.message_count"
    JOURNAL_STORE_MESSAGES = "oms_journal.broker.drivers.journal:JournalStore.messages"
    JOURNAL_STORE_READ = "oms_journal.broker.drivers.journal:JournalStore.read"
    JOURNAL_STORE_RECORD = "oms_journal.broker.drivers.journal:JournalStore.record"
    JOURNAL_STORE_RECORDS = "oms_journal.broker.drivers.journal:JournalStore.records"
    JOURNAL_DRAFT_OF = "oms_journal.broker.drivers.journal:draft_of"

    # broker/embedded
    LOOP_HAND_BACK = "oms_journal.broker.embedded.loop:LoopDispatcher._hand_back"
    RUNTIME_ROOM = "oms_journal.broker.embedded.runtime:Runtime.room"
    THREADS_HAND_BACK = "oms_journal.broker.embedded.threads:ThreadDispatcher._hand_back"
    THREADS_GIVE = "oms_journal.broker.embedded.threads:ThreadDispatcher.give"

    # broker/kernel
    HOLD_RELEASE_OF_WINDOW = "oms_journal.broker.kernel.hold_release:_of_window"
    HOLD_RELEASE_COMPLETION_BY = "oms_journal.broker.kernel.hold_release:completion_by"
    HOLD_RELEASE_DECIDE = "oms_journal.broker.kernel.hold_release:decide"
    KERNEL_TAKE = "oms_journal.broker.kernel.kernel:Kernel.take"
    KERNEL_TAKE_ALL = "oms_journal.broker.kernel.kernel:Kernel.take_all"
    KERNEL_DROP_PARTICIPANT = "oms_journal.broker.kernel.kernel:drop_participant"
    OPERATOR_COMMANDS_ACCEPT_AGAIN = "oms_journal.broker.kernel.operator_commands:accept_again"
    OPERATOR_COMMANDS_PURGE = "oms_journal.broker.kernel.operator_commands:purge"
    OPERATOR_COMMANDS_SUBSCRIBE_FOR = "oms_journal.broker.kernel.operator_commands:subscribe_for"

    # broker/kernel/restart
    RESTART_DECODED = "oms_journal.broker.kernel.restart.restore:_decoded"
    RESTART_EVERY = "oms_journal.broker.kernel.restart.restore:_every"
    RESTART_FOUND = "oms_journal.broker.kernel.restart.restore:_found"
    RESTART_WITHHOLD = "oms_journal.broker.kernel.restart.start:_withhold"
    UNIT_COLUMNS_IN_ORDER = "oms_journal.broker.kernel.restart.unit_columns:UnitColumns._in_order"

    # broker/kernel/state
    WORLD_FORGET_IDLE = "oms_journal.broker.kernel.state.world:World.forget_idle"

    # broker/kernel/tables
    HOLD_ENDS_AFTER = "oms_journal.broker.kernel.tables.hold:Hold.ends_after"

    # broker/kernel/topics
    ACKNOWLEDGEMENT_INIT = "oms_journal.broker.kernel.topics.delivery:Acknowledgement.__init__"

    # broker/kernel/units
    RECEIVE_ASSIGN = "oms_journal.broker.kernel.units.receive:assign"
    RECEIVE_DELIVER = "oms_journal.broker.kernel.units.receive:deliver"
    RECEIVER_DELAY = "oms_journal.broker.kernel.units.receiver:delay"
    RECEIVER_HAND_BACK = "oms_journal.broker.kernel.units.receiver:hand_back"
    RECEIVER_IS_AT_ITS_END = "oms_journal.broker.kernel.units.receiver:is_at_its_end"
    REPEATING_CHECK_IS_SAME = "oms_journal.broker.kernel.units.repeating:check_is_same"
    SEND_IS_ANSWERED = "oms_journal.broker.kernel.units.send:is_answered"
    SYNCPOINT_CHECK_IS_SAME = "oms_journal.broker.kernel.units.syncpoint:check_is_same"
    TRANSITIONS_COMPLETION_AS = "oms_journal.broker.kernel.units.transitions:completion_as"

    # broker/sessions
    SETTLED_EXIT = "oms_journal.broker.sessions.session_parts:Settled.__exit__"
    SESSION_RECOVER = "oms_journal.broker.sessions.sessions:Session.recover"
    SESSION_REGISTER = "oms_journal.broker.sessions.sessions:Session.register"
    SESSION_TAKEN = "oms_journal.broker.sessions.sessions:Session._taken"
    SESSION_UNIT_OF_WORK = "oms_journal.broker.sessions.sessions:Session.unit_of_work"
    SESSIONS_LAST_STATUS = "oms_journal.broker.sessions.sessions:last_status"
    READING_TAKES = "oms_journal.broker.sessions.verbs:Reading.takes"
    RECEIVING_CHECK_IS_OPEN = "oms_journal.broker.sessions.verbs:Receiving._check_is_open"

    # broker/store
    STORE_NEXT_START = "oms_journal.broker.store.start:next_start"

    @property
    def module(self) -> str:
        """The module, with dots."""
        return self.value.partition(":")[0]

    @property
    def folder(self) -> str:
        """The folder of the product that the module is in, with slashes."""
        return "/".join(self.module.removeprefix(f"{NAME}.").split(".")[:-1])

    @property
    def owner(self) -> Any:
        """The module or the class that has the name."""
        module, _, path = self.value.partition(":")
        owner, _, _ = path.rpartition(".")
        return pkgutil.resolve_name(f"{module}:{owner}")

    @property
    def attribute(self) -> str:
        """The name in its owner."""
        return self.value.replace(":", ".").rpartition(".")[2]

    def found(self) -> Any:
        """Return what stands there at present, with what makes it a static method or a property."""
        return vars(self.owner)[self.attribute]
