import java.io.BufferedOutputStream;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.Closeable;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Consumer;
import java.util.function.LongConsumer;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Reads directories of data files, format version 2, and prints one JSON object a line for each.
 *
 * <p>Written from three pages alone: bytes.md, reading.md and opening.md. Comments cite them as
 * "bytes: Frame", which is the section "Frame" of bytes.md. All 64-bit numbers of the format are unsigned;
 * here they are longs, compared with {@link Unsigned}.
 *
 * <pre>java Reader.java DIRECTORY…        java Reader.java --answer        java Reader.java --self-test</pre>
 */
public class Reader {
    /** It reads until two readings say the same, at most so often (reading: Beside a running writer). */
    private static final int MOST_READINGS = 6;

    public static void main(String[] arguments) throws IOException {
        if (arguments.length == 1 && arguments[0].equals("--self-test")) {
            SelfTest.run();
            return;
        }
        if (arguments.length == 0) {
            System.err.println("usage: java Reader.java DIRECTORY… | --answer | --self-test");
            System.exit(2);
        }
        try (PrintStream out = new PrintStream(
                new BufferedOutputStream(System.out, 1 << 16), false, StandardCharsets.UTF_8)) {
            if (arguments.length == 1 && arguments[0].equals("--answer")) {
                answer(out);
                return;
            }
            for (String directory : arguments) {
                tell(out, directory);
            }
        }
    }

    /** Tells of each directory that a line of the standard input names, until that ends. */
    private static void answer(PrintStream out) throws IOException {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String directory = lines.readLine(); directory != null; directory = lines.readLine()) {
            tell(out, directory);
        }
    }

    private static void tell(PrintStream out, String directory) {
        try (DirectoryReading reading = readUntilStable(directory)) {
            new Report(out, directory, reading).print();
        } catch (IOException e) {
            out.println(); // a file has changed since it was judged: this line is not whole
            System.err.println(directory + ": " + e.getMessage());
        }
        out.flush();
    }

    private static DirectoryReading readUntilStable(String directory) {
        DirectoryReading before = DirectoryReading.of(directory);
        for (int i = 1; i < MOST_READINGS && !before.isClean(); i++) {
            DirectoryReading again = DirectoryReading.of(directory);
            boolean same = again.summary().equals(before.summary());
            before.close();
            before = again;
            if (same) {
                break;
            }
        }
        return before;
    }
}

/** The directory as a whole must not be read. */
final class Refused extends RuntimeException {
    private static final long serialVersionUID = 1;

    Refused(String why) {
        super(why);
    }
}

/** A frame has the right checksum, but a program wrote it wrong (bytes: Frame, checks 6 to 12). */
final class NotUnderstood extends Exception {
    private static final long serialVersionUID = 1;

    NotUnderstood(String why) {
        super(why, null, false, false);
    }
}

/** Comparisons of unsigned 64-bit numbers. */
final class Unsigned {
    private Unsigned() {
    }

    static boolean less(long a, long b) {
        return Long.compareUnsigned(a, b) < 0;
    }

    static long max(long a, long b) {
        return less(a, b) ? b : a;
    }

    static long min(long a, long b) {
        return less(a, b) ? a : b;
    }

    static String text(long number) {
        return Long.toUnsignedString(number);
    }

    static <V> TreeMap<Long, V> map() {
        return new TreeMap<>(Long::compareUnsigned);
    }
}

/** Little-endian numbers in byte arrays (bytes: the rules at the top). */
final class Little {
    private static final VarHandle LONG =
            MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);
    private static final VarHandle INT =
            MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.LITTLE_ENDIAN);

    private Little() {
    }

    static long u64(byte[] bytes, int at) {
        return (long) LONG.get(bytes, at);
    }

    static int i32(byte[] bytes, int at) {
        return (int) INT.get(bytes, at);
    }

    static long u32(byte[] bytes, int at) {
        return i32(bytes, at) & 0xffffffffL;
    }

    static int u16(byte[] bytes, int at) {
        return u8(bytes, at) | u8(bytes, at + 1) << 8;
    }

    static int u8(byte[] bytes, int at) {
        return bytes[at] & 0xff;
    }

    static void put64(byte[] bytes, int at, long value) {
        LONG.set(bytes, at, value);
    }

    static byte[] hex(String digits) {
        byte[] bytes = new byte[digits.length() / 2];
        for (int i = 0; i < bytes.length; i++) {
            bytes[i] = (byte) Integer.parseInt(digits.substring(2 * i, 2 * i + 2), 16);
        }
        return bytes;
    }

    /** The number rounded up to a multiple of 8. */
    static long padded(long size) {
        return (size + 7) & ~7L;
    }

    static boolean startsWith(byte[] bytes, int at, byte[] what) {
        return at >= 0 && at + what.length <= bytes.length
                && Arrays.equals(bytes, at, at + what.length, what, 0, what.length);
    }

    /** The bytes as text, or null if they are not UTF-8. */
    static String utf8(byte[] bytes, int at, int size) {
        try {
            return StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes, at, size)).toString();
        } catch (CharacterCodingException e) {
            return null;
        }
    }
}

/** XXH3, 64 bits, with a seed and the default secret. */
final class Xxh3 {
    private static final byte[] SECRET = Little.hex(
            "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f"
            + "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
            + "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8a8"
            + "fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364ea"
            + "c5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e2b"
            + "16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e");
    private static final long PRIME32_1 = 0x9E3779B1L;
    private static final long PRIME32_2 = 0x85EBCA77L;
    private static final long PRIME32_3 = 0xC2B2AE3DL;
    private static final long PRIME64_1 = 0x9E3779B185EBCA87L;
    private static final long PRIME64_2 = 0xC2B2AE3D27D4EB4FL;
    private static final long PRIME64_3 = 0x165667B19E3779F9L;
    private static final long PRIME64_4 = 0x85EBCA77C2B2AE63L;
    private static final long PRIME64_5 = 0x27D4EB2F165667C5L;
    private static final long PRIME_MX1 = 0x165667919E3779F9L;
    private static final long PRIME_MX2 = 0x9FB21C651E98DF25L;
    /** Inputs up to this size have formulas of their own. */
    static final int SHORT = 240;
    static final int STRIPE = 64;
    static final int BLOCK = 1024;
    private static final int SECRET_SIZE = 192;

    private Xxh3() {
    }

    static long of(byte[] bytes) {
        return of(bytes, 0, bytes.length, 0);
    }

    static long of(byte[] in, int at, int size, long seed) {
        if (size > SHORT) {
            return ofLong(in, at, size, seed);
        }
        if (size > 128) {
            return of129to240(in, at, size, seed);
        }
        if (size > 16) {
            return of17to128(in, at, size, seed);
        }
        return size > 8 ? of9to16(in, at, size, seed) : of0to8(in, at, size, seed);
    }

    private static long of0to8(byte[] in, int at, int size, long seed) {
        if (size >= 4) {
            long mixedSeed = seed ^ (Integer.reverseBytes((int) seed) & 0xffffffffL) << 32;
            long word = Little.u32(in, at + size - 4) + (Little.u32(in, at) << 32);
            return strongAvalanche(word ^ ((secret(8) ^ secret(16)) - mixedSeed), size);
        }
        if (size > 0) {
            long word = Little.u8(in, at) << 16 | (long) Little.u8(in, at + (size >> 1)) << 24
                    | Little.u8(in, at + size - 1) | size << 8;
            long flip = (Little.u32(SECRET, 0) ^ Little.u32(SECRET, 4)) + seed;
            return avalanche64(word ^ flip);
        }
        return avalanche64(seed ^ secret(56) ^ secret(64));
    }

    private static long of9to16(byte[] in, int at, int size, long seed) {
        long low = Little.u64(in, at) ^ ((secret(24) ^ secret(32)) + seed);
        long high = Little.u64(in, at + size - 8) ^ ((secret(40) ^ secret(48)) - seed);
        return avalanche(size + Long.reverseBytes(low) + high + foldedProduct(low, high));
    }

    private static long of17to128(byte[] in, int at, int size, long seed) {
        long sum = size * PRIME64_1;
        for (int i = (size - 1) / 32; i >= 0; i--) {
            sum += mix16(in, at + 16 * i, 32 * i, seed);
            sum += mix16(in, at + size - 16 * (i + 1), 32 * i + 16, seed);
        }
        return avalanche(sum);
    }

    private static long of129to240(byte[] in, int at, int size, long seed) {
        long sum = size * PRIME64_1;
        for (int i = 0; i < 8; i++) {
            sum += mix16(in, at + 16 * i, 16 * i, seed);
        }
        sum = avalanche(sum);
        for (int i = 8; i < size / 16; i++) {
            sum += mix16(in, at + 16 * i, 16 * (i - 8) + 3, seed);
        }
        return avalanche(sum + mix16(in, at + size - 16, 136 - 17, seed));
    }

    private static long ofLong(byte[] in, int at, int size, long seed) {
        LongInput input = new LongInput(size, seed);
        input.add(in, at, input.bytesBeforeLastStripe());
        return input.finish(in, at + size - STRIPE);
    }

    private static long secret(int at) {
        return Little.u64(SECRET, at);
    }

    private static long mix16(byte[] in, int at, int secretAt, long seed) {
        return foldedProduct(Little.u64(in, at) ^ (secret(secretAt) + seed),
                Little.u64(in, at + 8) ^ (secret(secretAt + 8) - seed));
    }

    /** The lower half of the 128-bit product, exclusive or its upper half. */
    private static long foldedProduct(long a, long b) {
        long high = Math.multiplyHigh(a, b) + (a >> 63 & b) + (b >> 63 & a);
        return a * b ^ high;
    }

    private static long avalanche(long hash) {
        hash = (hash ^ hash >>> 37) * PRIME_MX1;
        return hash ^ hash >>> 32;
    }

    private static long avalanche64(long hash) {
        hash = (hash ^ hash >>> 33) * PRIME64_2;
        hash = (hash ^ hash >>> 29) * PRIME64_3;
        return hash ^ hash >>> 32;
    }

    private static long strongAvalanche(long hash, int size) {
        hash ^= Long.rotateLeft(hash, 49) ^ Long.rotateLeft(hash, 24);
        hash *= PRIME_MX2;
        hash = (hash ^ (hash >>> 35) + size) * PRIME_MX2;
        return hash ^ hash >>> 28;
    }

    /** An input above 240 bytes, whose length is known before; it is added in pieces of whole blocks. */
    static final class LongInput {
        private final long size;
        private final long[] keys = new long[SECRET_SIZE / 8];
        private final byte[] secret = new byte[SECRET_SIZE];
        private final long[] sums = {PRIME32_3, PRIME64_1, PRIME64_2, PRIME64_3,
            PRIME64_4, PRIME32_2, PRIME64_5, PRIME32_1};

        LongInput(long size, long seed) {
            this.size = size;
            for (int i = 0; i < keys.length; i++) {
                keys[i] = Xxh3.secret(8 * i) + (i % 2 == 0 ? seed : -seed);
                Little.put64(secret, 8 * i, keys[i]);
            }
        }

        /** The bytes to add: all stripes but the last, which is the last 64 bytes wherever they begin. */
        long bytesBeforeLastStripe() {
            return (size - 1) / STRIPE * STRIPE;
        }

        /** Adds whole stripes. Each piece but the last has whole blocks. */
        void add(byte[] in, int at, long bytes) {
            int stripes = (int) (bytes / STRIPE);
            for (int i = 0; i < stripes; i++) {
                int inBlock = i % (BLOCK / STRIPE);
                addStripe(in, at + i * STRIPE, inBlock);
                if (inBlock == BLOCK / STRIPE - 1) {
                    scramble();
                }
            }
        }

        private void addStripe(byte[] in, int at, int firstKey) {
            for (int i = 0; i < 8; i++) {
                addWord(i, Little.u64(in, at + 8 * i), keys[firstKey + i]);
            }
        }

        private void addWord(int lane, long word, long key) {
            long mixed = word ^ key;
            sums[lane ^ 1] += word;
            sums[lane] += (mixed & 0xffffffffL) * (mixed >>> 32);
        }

        private void scramble() {
            for (int i = 0; i < 8; i++) {
                long sum = sums[i];
                sums[i] = (sum ^ sum >>> 47 ^ keys[16 + i]) * PRIME32_1;
            }
        }

        long finish(byte[] in, int lastStripeAt) {
            for (int i = 0; i < 8; i++) {
                addWord(i, Little.u64(in, lastStripeAt + 8 * i),
                        Little.u64(secret, SECRET_SIZE - STRIPE - 7 + 8 * i));
            }
            long hash = size * PRIME64_1;
            for (int i = 0; i < 4; i++) {
                hash += foldedProduct(sums[2 * i] ^ Little.u64(secret, 11 + 16 * i),
                        sums[2 * i + 1] ^ Little.u64(secret, 19 + 16 * i));
            }
            return avalanche(hash);
        }
    }
}

/** XXH3 over checksums in order, 8 bytes each (bytes: File header, "previous chain"). */
final class Chain {
    private final ByteArrayOutputStream checksums = new ByteArrayOutputStream();
    private final byte[] eight = new byte[8];

    void add(long checksum) {
        Little.put64(eight, 0, checksum);
        checksums.write(eight, 0, 8);
    }

    long hash() {
        return Xxh3.of(checksums.toByteArray());
    }
}

/** The file became shorter while it was read; whoever reads begins again (reading: Beside a running writer). */
final class FileChanged extends IOException {
    private static final long serialVersionUID = 1;

    FileChanged(String name) {
        super(name + " became shorter while it was read");
    }
}

/** A data file, read by position through one window, so that a file of any size needs little memory. */
final class DataFile implements Closeable {
    static final long FIRST_FRAME = 4352;
    private static final int WINDOW = 1 << 20;

    final long sequence;
    final long size;
    private final Path path;
    private final FileChannel channel;
    private byte[] window = new byte[0];
    private long windowStart;
    private int windowSize;

    /** @param mostBytes bytes after these are not part of the file (reading: A backup, 2), unsigned */
    DataFile(long sequence, Path path, long mostBytes) throws IOException {
        this.sequence = sequence;
        this.path = path;
        this.channel = FileChannel.open(path, StandardOpenOption.READ);
        this.size = Unsigned.min(channel.size(), mostBytes);
    }

    @Override
    public void close() {
        try {
            channel.close();
        } catch (IOException e) {
            // It was only read: nothing is lost.
        }
    }

    long u64(long offset) throws IOException {
        int at = at(offset, 8);
        return Little.u64(window, at);
    }

    long u32(long offset) throws IOException {
        int at = at(offset, 4);
        return Little.u32(window, at);
    }

    byte[] bytes(long offset, int count) throws IOException {
        byte[] bytes = new byte[count];
        if (count > WINDOW) {
            readInto(bytes, offset, count);
        } else if (count > 0) {
            int at = at(offset, count);
            System.arraycopy(window, at, bytes, 0, count);
        }
        return bytes;
    }

    /** XXH3 over bytes of the file. */
    long hash(long offset, long count, long seed) throws IOException {
        if (count <= 0) {
            return Xxh3.of(new byte[0], 0, 0, seed);
        }
        if (count <= WINDOW) {
            int at = at(offset, (int) count);
            return Xxh3.of(window, at, (int) count, seed);
        }
        Xxh3.LongInput input = new Xxh3.LongInput(count, seed);
        byte[] piece = new byte[WINDOW];
        long end = offset + input.bytesBeforeLastStripe();
        for (long place = offset; place < end; place += WINDOW) {
            int bytes = (int) Math.min(WINDOW, end - place);
            readInto(piece, place, bytes);
            input.add(piece, 0, bytes);
        }
        readInto(piece, offset + count - Xxh3.STRIPE, Xxh3.STRIPE);
        return input.finish(piece, 0);
    }

    /** Gives the window's memory back until the file is read again. */
    void rest() {
        window = new byte[0];
        windowSize = 0;
    }

    boolean isZero(long from, long to) throws IOException {
        long place = from;
        while (place < to) {
            int count = (int) Math.min(4096, to - place);
            int at = at(place, count);
            for (int i = at; i < at + count; i++) {
                if (window[i] != 0) {
                    return false;
                }
            }
            place += count;
        }
        return true;
    }

    /** The end of the last byte that is not zero, or `from` if all are zeros. */
    long endOfContent(long from, long to) throws IOException {
        byte[] piece = new byte[(int) Math.min(WINDOW, Math.max(to - from, 0))];
        for (long end = to; end > from; ) {
            int count = (int) Math.min(WINDOW, end - from);
            readInto(piece, end - count, count);
            for (int i = count - 1; i >= 0; i--) {
                if (piece[i] != 0) {
                    return end - count + i + 1;
                }
            }
            end -= count;
        }
        return from;
    }

    /** The last place of these eight bytes, at any offset, or -1. */
    long lastPlaceOf(byte[] eight) throws IOException {
        byte[] piece = new byte[(int) Math.min(WINDOW, size)];
        for (long end = size; end >= eight.length; ) {
            int count = (int) Math.min(WINDOW, end);
            readInto(piece, end - count, count);
            for (int i = count - eight.length; i >= 0; i--) {
                if (piece[i] == eight[0] && Little.startsWith(piece, i, eight)) {
                    return end - count + i;
                }
            }
            if (count == end) {
                return -1;
            }
            end -= count - (eight.length - 1);
        }
        return -1;
    }

    boolean has(byte[] what, long offset) throws IOException {
        return offset >= 0 && offset <= size - what.length && Arrays.equals(bytes(offset, what.length), what);
    }

    /** The place of the offset in the window, which then holds `count` bytes from there. */
    private int at(long offset, int count) throws IOException {
        if (offset < windowStart || offset + count > windowStart + windowSize) {
            load(offset, count);
        }
        return (int) (offset - windowStart);
    }

    private void load(long offset, int count) throws IOException {
        if (window.length == 0) {
            window = new byte[(int) Math.min(WINDOW, size)];
        }
        if (offset < 0 || count > size - offset) {
            throw new FileChanged(path.toString());
        }
        windowSize = 0;
        windowStart = offset;
        int wanted = (int) Math.min(WINDOW, size - offset);
        readInto(window, offset, wanted);
        windowSize = wanted;
    }

    private void readInto(byte[] target, long offset, int count) throws IOException {
        ByteBuffer buffer = ByteBuffer.wrap(target, 0, count);
        while (buffer.hasRemaining()) {
            if (channel.read(buffer, offset + buffer.position()) < 0) {
                throw new FileChanged(path.toString());
            }
        }
    }

    /**
     * The frame at this offset, or null if there is none (bytes: Frame, checks 1 to 5, the cheap ones first).
     *
     * @param identity of the file, or null to leave out check 4
     */
    Frame frameAt(long offset, long limit, Long identity) throws IOException {
        long room = Math.min(limit, size) - offset;
        if (room < Frame.HEAD || identity != null && u64(offset + 24) != identity) {
            return null;
        }
        long length = u32(offset + 8);
        long meta = u32(offset + 12);
        if (length < Frame.HEAD + meta || length > Frame.MOST_BYTES || length % 8 != 0 || length > room) {
            return null;
        }
        long seed = sequence * 0x9e3779b97f4a7c15L + offset;
        if (hash(offset + 8, Frame.HEAD - 8 + meta, seed) != u64(offset)) {
            return null;
        }
        return new Frame(offset, bytes(offset, Frame.HEAD));
    }

    /** The first frame at a multiple of 8 that is at or after `from`, or null. */
    Frame nextFrame(long from, long limit, Long identity) throws IOException {
        long end = Math.min(limit, size) - Frame.HEAD;
        for (long offset = Little.padded(from); offset <= end; offset += 8) {
            Frame frame = frameAt(offset, limit, identity);
            if (frame != null) {
                return frame;
            }
        }
        return null;
    }
}

/** A file header, or a copy of it (bytes: File header). */
final class Header {
    static final int SIZE = 256;
    static final long SECOND_COPY = 4096;
    private static final byte[] MAGIC = Little.hex("894f4d53440d0a1a");
    private static final byte[] MAGIC_OF_VERSION_1 = Little.hex("894f4d534a0d0a1a");
    private static final byte[] END_OF_VERSION_1 = "1ATOOFSM".getBytes(StandardCharsets.US_ASCII);

    /** 2^63, unsigned. */
    private static final long MOST_NUMBER = Long.MIN_VALUE;

    private final byte[] raw;
    final String database;
    final String parent;
    final long parentSequence;
    final long identity;
    final long sequence;
    final long owner;
    final long nextMessage;
    final long nextCommit;
    final long lowWater;
    final int alignment;
    final long previousSequence;
    final Ending previous;
    /** False for a header that a repair made: only database, identity, sequence and owner mean anything then. */
    final boolean isTelling;

    private Header(byte[] raw) {
        this.raw = raw;
        isTelling = Little.u64(raw, 104) != 0;
        database = Text.hex(raw, 16, 16);
        parent = isTelling ? Text.hex(raw, 32, 16) : Text.NO_DATABASE;
        parentSequence = told(48);
        identity = Little.u64(raw, 56);
        sequence = Little.u64(raw, 64);
        owner = Little.u64(raw, 72);
        nextMessage = told(80);
        nextCommit = told(88);
        lowWater = told(96);
        alignment = isTelling ? Little.i32(raw, 112) : Frame.ALIGNMENT_WITHOUT_HEADER;
        previousSequence = told(120);
        previous = new Ending(told(128), told(136), told(144), told(152), this);
    }

    private long told(int at) {
        return isTelling ? Little.u64(raw, at) : 0;
    }

    /** The header in these 256 bytes, or null if the copy is bad; the checks 1 to 4 in their order. */
    static Header decode(byte[] raw, String where) {
        if (Little.startsWith(raw, 0, MAGIC_OF_VERSION_1)) {
            throw new Refused(where + ": format version 1");
        }
        if (!Little.startsWith(raw, 0, MAGIC) || Xxh3.of(raw, 0, 248, 0) != Little.u64(raw, 248)) {
            return null;
        }
        if (Little.i32(raw, 8) != 2) {
            throw new Refused(where + ": format version " + Little.u32(raw, 8));
        }
        int alignment = Little.i32(raw, 112);
        boolean aligned = alignment >= 8 && alignment <= 4096 && Integer.bitCount(alignment) == 1;
        if (Little.i32(raw, 12) != SIZE || Little.i32(raw, 116) != 0 || !aligned) {
            throw new Refused(where + ": a header with unknown size, flags or alignment");
        }
        Header header = new Header(raw);
        return header.areNumbersRight() ? header : null;
    }

    /** Reading, appendix, "header numbers" and "header previous": else this copy is rotted. */
    private boolean areNumbersRight() {
        return !Unsigned.less(MOST_NUMBER, nextMessage) && !Unsigned.less(MOST_NUMBER, nextCommit)
                && !Unsigned.less(MOST_NUMBER, previous.commit())
                && Unsigned.less(previousSequence, sequence);
    }

    static Header read(DataFile file, long offset, String where) throws IOException {
        return file.size - offset < SIZE ? null : decode(file.bytes(offset, SIZE), where);
    }

    /** For a file without a good copy: signs of version 1 in other places. */
    static void refuseOldVersion(DataFile file, String where) throws IOException {
        if (file.has(MAGIC_OF_VERSION_1, 512) || file.has(END_OF_VERSION_1, file.size - 8)) {
            throw new Refused(where + ": format version 1");
        }
    }

    boolean isSameAs(Header other) {
        return other != null && Arrays.equals(raw, other.raw);
    }
}

/** How a file ends, as another file, the manifest or the witness says it; `said` is the header that does, or null. */
record Ending(long identity, long end, long commit, long chain, Header said) {
}

/** A frame's header (bytes: Frame), and what a walk found out about the frame. */
final class Frame {
    static final int HEAD = 56;
    static final long MOST_BYTES = (1L << 30) + (1L << 20);
    static final int ALIGNMENT_WITHOUT_HEADER = 4096;

    final long offset;
    final long checksum;
    final int length;
    final int meta;
    final long commit;
    final long identity;
    final long synced;
    final long time;
    final long operations;
    final int flags;
    boolean isUnderstood = true;
    boolean hasBadPayload;
    /** The highest number of a message that was added here and not moved, or -1. */
    long lastAdded = -1;
    /** The value of the last undamaged PUT of the low-water key in this frame, or null. */
    Long lowWater;

    Frame(long offset, byte[] head) {
        this.offset = offset;
        checksum = Little.u64(head, 0);
        length = Little.i32(head, 8);
        meta = Little.i32(head, 12);
        commit = Little.u64(head, 16);
        identity = Little.u64(head, 24);
        synced = Little.u64(head, 32);
        time = Little.u64(head, 40);
        operations = Little.u32(head, 48);
        flags = Little.i32(head, 52);
    }

    long end() {
        return offset + length;
    }

    boolean isGap() {
        return isUnderstood && flags == 1;
    }
}

/** Kinds and flags of records, the same in frames and in the columns of a footer. */
final class Kind {
    static final int ADD = 1;
    static final int DELIVER = 2;
    static final int DELETE = 3;
    static final int PUT = 4;
    static final int DROP = 5;
    static final int GAP = 6;
    private static final String[] NAMES = {"", "ADD", "DELIVER", "DELETE", "PUT", "DROP", "GAP"};

    static final int PROPERTIES = 1;
    static final int PRODUCER = 2;
    static final int MOVED = 4;
    static final int WHOLE_COMMIT = 8;
    static final int DUE = 16;
    static final int EXPIRY = 32;
    static final int GROUP = 64;
    static final int ATTEMPTS = 128;
    /** Only in the columns of a footer. */
    static final int DAMAGED = 256;

    private Kind() {
    }

    static String name(int kind) {
        return NAMES[kind];
    }

    static boolean isRemoval(int kind) {
        return kind == DELIVER || kind == DELETE;
    }
}

/** A set of message numbers: runs without gaps (bytes: Records). */
final class NumberSet {
    private final List<long[]> runs = new ArrayList<>();

    static NumberSet of(long number) throws NotUnderstood {
        NumberSet set = new NumberSet();
        set.add(number, 1);
        return set;
    }

    /** Decodes a run's length, the gap to the next run, its length, and so on; it ends with a run. */
    static NumberSet decode(byte[] coded, int at, int size, long number, long count) throws NotUnderstood {
        NumberSet set = new NumberSet();
        Leb128 numbers = new Leb128(coded, at, at + size);
        long next = number;
        long left = count;
        while (true) {
            long run = numbers.next();
            if (run == 0 || Unsigned.less(left, run)) {
                throw new NotUnderstood("runs of a set do not add up");
            }
            set.add(next, run);
            left -= run;
            if (numbers.isAtEnd()) {
                break;
            }
            next = sum(next + run, numbers.next());
        }
        if (left != 0) {
            throw new NotUnderstood("runs of a set do not add up");
        }
        return set;
    }

    private void add(long first, long length) throws NotUnderstood {
        long last = sum(first, length - 1);
        runs.add(new long[] {first, last});
    }

    /** The sum, if it is a message number: at most 2^63 − 1. */
    private static long sum(long a, long b) throws NotUnderstood {
        if (a < 0 || b < 0 || a + b < 0) {
            throw new NotUnderstood("a message number above 2^63 - 1");
        }
        return a + b;
    }

    void forEach(LongConsumer consumer) {
        for (long[] run : runs) {
            for (long number = run[0]; number <= run[1] && number >= 0; number++) {
                consumer.accept(number);
            }
        }
    }

    List<long[]> runs() {
        return runs;
    }
}

/** Numbers of seven bits a byte, lowest first. */
final class Leb128 {
    private final byte[] bytes;
    private int at;
    private final int end;

    Leb128(byte[] bytes, int at, int end) {
        this.bytes = bytes;
        this.at = at;
        this.end = end;
    }

    boolean isAtEnd() {
        return at == end;
    }

    long next() throws NotUnderstood {
        long value = 0;
        for (int shift = 0; at < end && shift < 64; shift += 7) {
            int part = bytes[at++];
            if (shift == 63 && (part & 0xfe) != 0) {
                break;
            }
            value |= (part & 0x7fL) << shift;
            if (part >= 0) {
                return value;
            }
        }
        throw new NotUnderstood("a number of a set does not end, or has more than 64 bits");
    }
}

/** One record of a frame (bytes: Records): its numbers stay in the bytes they came in. */
final class FrameRecord {
    private static final int HEAD = 16;

    final int kind;
    final int flags;
    final long count;
    final long number;
    String name;
    String producer;
    String[] groups;
    NumberSet removed;
    private final byte[] bytes;
    private final int nameSize;
    private final int extra;
    /** Where the next part begins; after the last part, where the record's parts end. */
    private int place;
    private int checksumsAt;
    private int numbersAt;
    private int firstTimesAt;
    private int dueAt;
    private int expiryAt;
    private int sizesAt;
    private int propertiesAt;
    private int attemptsAt;
    private int setAt;
    private int setSize;

    FrameRecord(byte[] bytes, int at) throws NotUnderstood {
        this.bytes = bytes;
        require(at + HEAD <= bytes.length, "a record goes beyond the records");
        kind = Little.u8(bytes, at);
        flags = Little.u8(bytes, at + 1);
        nameSize = Little.u8(bytes, at + 2);
        extra = Little.u8(bytes, at + 3);
        count = Little.u32(bytes, at + 4);
        number = Little.u64(bytes, at + 8);
        place = at + HEAD;
        checkHead();
        if (kind == Kind.ADD) {
            takeAddParts();
        } else if (Kind.isRemoval(kind)) {
            takeSet();
        } else {
            name = takeText(nameSize);
        }
    }

    private static void require(boolean holds, String otherwise) throws NotUnderstood {
        if (!holds) {
            throw new NotUnderstood(otherwise);
        }
    }

    boolean has(int flag) {
        return (flags & flag) != 0;
    }

    private void checkHead() throws NotUnderstood {
        int allowed = kind == Kind.ADD ? 255 : kind == Kind.PUT ? Kind.MOVED : 0;
        require(kind >= Kind.ADD && kind <= Kind.GAP, "another kind");
        require((flags & ~allowed) == 0, "another flag");
        require(nameSize > 0, "no name");
        require(extra > 0 == has(Kind.PRODUCER), "a producer without the flag, or the reverse");
        require(!has(Kind.WHOLE_COMMIT) || has(Kind.PRODUCER) && !has(Kind.MOVED), "WHOLE COMMIT of nobody");
        boolean isOfMessages = kind == Kind.ADD || Kind.isRemoval(kind);
        require(count > 0 || !isOfMessages, "no messages");
        require(count == 0 || kind != Kind.DROP && kind != Kind.GAP, "a count where there is nothing to count");
        boolean isNumberless = kind == Kind.DROP || kind == Kind.ADD && has(Kind.MOVED);
        require(number == 0 || !isNumberless, "a number where there is none");
        boolean usesNumber = kind == Kind.ADD && !has(Kind.MOVED) || Kind.isRemoval(kind);
        require(!usesNumber || number >= 0, "a message number above 2^63 - 1");
    }

    private void takeAddParts() throws NotUnderstood {
        checksumsAt = take(8 * count);
        numbersAt = takeIf(Kind.MOVED, 8);
        firstTimesAt = takeIf(Kind.MOVED, 8);
        dueAt = takeIf(Kind.DUE, 8);
        expiryAt = takeIf(Kind.EXPIRY, 8);
        sizesAt = take(4 * count);
        propertiesAt = takeIf(Kind.PROPERTIES, 4);
        attemptsAt = takeIf(Kind.ATTEMPTS, 4);
        int groupSizesAt = takeIf(Kind.GROUP, 1);
        name = takeText(nameSize);
        producer = has(Kind.PRODUCER) ? takeText(extra) : null;
        if (has(Kind.GROUP)) {
            takeGroups(groupSizesAt);
        }
        checkMessages();
    }

    private void takeGroups(int sizesAt) throws NotUnderstood {
        groups = new String[(int) count];
        int start = place;
        for (int i = 0; i < count; i++) {
            int size = Little.u8(bytes, sizesAt + i);
            groups[i] = size == 0 ? null : takeText(size);
        }
        require(place > start, "GROUP without a group");
    }

    private void checkMessages() throws NotUnderstood {
        require(has(Kind.MOVED) || number + count - 1 >= 0, "a message number above 2^63 - 1");
        for (int i = 0; i < count; i++) {
            require(number(i) >= 0, "a message number above 2^63 - 1");
            require(propertiesSize(i) <= size(i), "properties are longer than the message");
        }
    }

    private void takeSet() throws NotUnderstood {
        int sizeAt = take(4);
        int size = (int) Math.min(Integer.MAX_VALUE, Little.u32(bytes, sizeAt));
        setAt = take(size);
        setSize = size;
        name = takeText(nameSize);
        if (size == 0) {
            require(count == 1, "one number, but another count");
            removed = NumberSet.of(number);
        } else {
            removed = NumberSet.decode(bytes, setAt, size, number, count);
        }
    }

    private int takeIf(int flag, int bytesEach) throws NotUnderstood {
        return has(flag) ? take(bytesEach * count) : place;
    }

    private int take(long size) throws NotUnderstood {
        require(size <= bytes.length - place, "a part goes beyond the records");
        int at = place;
        place += (int) size;
        return at;
    }

    private String takeText(int size) throws NotUnderstood {
        String text = Little.utf8(bytes, take(size), size);
        require(text != null, "text is not UTF-8");
        return text;
    }

    /** The bytes of a removal's set; none for one number. */
    byte[] codedSet() {
        return Arrays.copyOfRange(bytes, setAt, setAt + setSize);
    }

    /** An ADD without MOVED. */
    boolean isNewMessages() {
        return kind == Kind.ADD && !has(Kind.MOVED);
    }

    int partsEnd() {
        return place;
    }

    long operations() {
        return kind == Kind.GAP ? 0 : kind == Kind.PUT || kind == Kind.DROP ? 1 : count;
    }

    /** Bytes of all payloads of this record. */
    long payloadBytes() {
        if (kind == Kind.PUT) {
            return count;
        }
        long sum = 0;
        for (int i = 0; kind == Kind.ADD && i < count; i++) {
            sum += size(i);
        }
        return sum;
    }

    long checksum(int i) {
        return Little.u64(bytes, checksumsAt + 8 * i);
    }

    long number(int i) {
        return has(Kind.MOVED) ? Little.u64(bytes, numbersAt + 8 * i) : number + i;
    }

    long firstTime(int i, long timeOfCommit) {
        return has(Kind.MOVED) ? Little.u64(bytes, firstTimesAt + 8 * i) : timeOfCommit;
    }

    Long due(int i) {
        return has(Kind.DUE) ? Little.u64(bytes, dueAt + 8 * i) : null;
    }

    Long expiry(int i) {
        return has(Kind.EXPIRY) ? Little.u64(bytes, expiryAt + 8 * i) : null;
    }

    Long attempts(int i) {
        return has(Kind.ATTEMPTS) ? Little.u32(bytes, attemptsAt + 4 * i) : null;
    }

    String group(int i) {
        return groups == null ? null : groups[i];
    }

    long size(int i) {
        return Little.u32(bytes, sizesAt + 4 * i);
    }

    long propertiesSize(int i) {
        return has(Kind.PROPERTIES) ? Little.u32(bytes, propertiesAt + 4 * i) : 0;
    }
}

/** The records of one frame, and the checks 6 to 12 (bytes: Frame). */
final class FrameContent {
    private static final long MOST_OPERATIONS = 1_000_000;

    final List<FrameRecord> records = new ArrayList<>();
    /** The lowest and the highest number that an ADD without MOVED has here; -1 if there is none. */
    long firstAdded = -1;
    long lastAdded = -1;

    static FrameContent read(DataFile file, Frame frame, int alignment) throws IOException, NotUnderstood {
        if (frame.flags != 0 && frame.flags != 1) {
            throw new NotUnderstood("another flag of a frame");
        }
        if (Unsigned.less(frame.offset, frame.synced)) {
            throw new NotUnderstood("synced beyond the frame"); // reading, appendix, "frame synced"
        }
        FrameContent content = new FrameContent(file.bytes(frame.offset + Frame.HEAD, frame.meta));
        if (frame.flags == 1) {
            content.checkGap(frame);
        } else {
            content.checkOperations(frame);
            content.checkPayloadBytes(frame, alignment);
            content.checkNumbersAscend();
            content.checkWholeCommit();
        }
        return content;
    }

    private FrameContent(byte[] meta) throws NotUnderstood {
        for (long place = 0; place < meta.length; ) {
            FrameRecord record = new FrameRecord(meta, (int) place);
            records.add(record);
            place = Little.padded(record.partsEnd());
        }
    }

    private static void require(boolean holds, String otherwise) throws NotUnderstood {
        if (!holds) {
            throw new NotUnderstood(otherwise);
        }
    }

    /** A gap frame fills a bad range of any length, so what stands behind its record is not padding. */
    private void checkGap(Frame frame) throws NotUnderstood {
        boolean fits = records.isEmpty() || records.size() == 1 && records.get(0).kind == Kind.GAP;
        require(fits && frame.operations == 0, "a gap frame with operations");
    }

    private void checkOperations(Frame frame) throws NotUnderstood {
        long sum = 0;
        for (FrameRecord record : records) {
            require(record.kind != Kind.GAP, "a gap outside a gap frame");
            sum += record.operations();
        }
        require(sum == frame.operations && sum <= MOST_OPERATIONS, "operations do not add up");
    }

    private void checkPayloadBytes(Frame frame, int alignment) throws NotUnderstood {
        long padding = frame.length - Frame.HEAD - frame.meta;
        for (FrameRecord record : records) {
            padding -= record.payloadBytes();
        }
        require(padding >= 0 && padding < alignment, "payloads do not fit in the frame");
    }

    private void checkNumbersAscend() throws NotUnderstood {
        for (FrameRecord record : records) {
            if (record.isNewMessages()) {
                require(record.number > lastAdded, "message numbers do not ascend");
                firstAdded = lastAdded < 0 ? record.number : firstAdded;
                lastAdded = record.number + record.count - 1;
            }
        }
    }

    private void checkWholeCommit() throws NotUnderstood {
        FrameRecord first = null;
        for (FrameRecord record : records) {
            if (!record.isNewMessages()) {
                continue;
            }
            first = first == null ? record : first;
            boolean same = record.has(Kind.WHOLE_COMMIT) == first.has(Kind.WHOLE_COMMIT)
                    && (!first.has(Kind.WHOLE_COMMIT) || record.producer.equals(first.producer));
            require(same, "WHOLE COMMIT, but not of the whole commit");
        }
    }
}

/** What the next frame of a walk may have (reading, appendix: "frame commit" and "frame messages"). */
final class FrameOrder {
    private CommitRange expected;
    /** What may also come behind a frame with a wrong number, or null. */
    private CommitRange other;
    private final long nextMessage;
    private long lastAdded;

    /** Commit numbers from the lowest to the highest, both included. */
    private record CommitRange(long low, long high) {
        static final CommitRange ALL = new CommitRange(0, -1);

        static CommitRange behind(long commit) {
            return new CommitRange(commit + 1, commit + 1);
        }

        boolean has(long commit) {
            return !Unsigned.less(commit, low) && !Unsigned.less(high, commit);
        }

        CommitRange moved(long lowBy, long highBy) {
            return new CommitRange(sum(low, lowBy), sum(high, highBy));
        }

        /** At most 2^64 - 1. */
        private static long sum(long a, long b) {
            return Unsigned.less(a + b, a) ? -1 : a + b;
        }
    }

    /**
     * @param header of the file; without one, or if a repair made it, the first frame may have any numbers
     * @param lastAdded the highest number that was added in the files before, or -1
     */
    FrameOrder(Header header, long lastAdded) {
        boolean isTold = header != null && header.isTelling;
        expected = isTold ? new CommitRange(header.nextCommit, header.nextCommit) : CommitRange.ALL;
        nextMessage = isTold ? header.nextMessage : 0;
        this.lastAdded = lastAdded;
    }

    /** Behind a bad range the number may be higher by as many frames as had room in it. */
    void passBadRange(long bytes) {
        long frames = bytes / Frame.HEAD;
        expected = expected.moved(0, frames);
        other = other == null ? null : other.moved(0, frames);
    }

    /** The number counts, even if the records of the frame are not understood; that of a gap frame means nothing. */
    void takeCommit(Frame frame) throws NotUnderstood {
        if (frame.flags == 1) {
            passBadRange(frame.length);
            return;
        }
        boolean fits = expected.has(frame.commit) || other != null && other.has(frame.commit);
        long lowest = expected.low();
        expected = fits ? CommitRange.behind(frame.commit) : expected.moved(1, 1);
        other = fits || Unsigned.less(frame.commit, lowest) ? null : CommitRange.behind(frame.commit);
        if (!fits) {
            throw new NotUnderstood("a wrong commit number");
        }
    }

    void takeMessages(FrameContent content) throws NotUnderstood {
        if (content.firstAdded < 0) {
            return;
        }
        if (content.firstAdded <= lastAdded || Unsigned.less(content.firstAdded, nextMessage)) {
            throw new NotUnderstood("a message number that was there before");
        }
        lastAdded = content.lastAdded;
    }
}

/** One operation, as the report tells it. */
final class Operation {
    static final String LOW_WATER_KEY = "\0low-water";

    final long sequence;
    final long offset;
    final long commit;
    final int kind;
    final String name;
    final long time;
    final boolean isVouched;
    Long number;
    String producer;
    long firstTime;
    boolean isMoved;
    boolean isDamaged;
    /** XXH3 of the payload without properties, or of the value; null if there is none, or it is damaged. */
    Long payload;
    /** XXH3 of the value that the key has from now on; null if the value is lost. */
    Long value;
    Map<String, String> properties;
    Long due;
    Long expiry;
    Long attempts;
    String group;

    Operation(long sequence, long offset, long commit, int kind, String name, long time, boolean isVouched) {
        this.sequence = sequence;
        this.offset = offset;
        this.commit = commit;
        this.kind = kind;
        this.name = name;
        this.time = time;
        this.firstTime = time;
        this.isVouched = isVouched;
    }

    /** Pairs of a key and a value (bytes: Payloads); null if they do not fit in the bytes. */
    static Map<String, String> properties(byte[] bytes) {
        Map<String, String> properties = new LinkedHashMap<>();
        int[] place = {0};
        while (place[0] < bytes.length) {
            String key = property(bytes, place);
            String value = key == null ? null : property(bytes, place);
            if (value == null) {
                return null;
            }
            properties.put(key, value);
        }
        return properties;
    }

    private static String property(byte[] bytes, int[] place) {
        int at = place[0] + 2;
        if (at > bytes.length || at + Little.u16(bytes, at - 2) > bytes.length) {
            return null;
        }
        int size = Little.u16(bytes, at - 2);
        place[0] = at + size;
        return new String(bytes, at, size, StandardCharsets.UTF_8);
    }
}

/** Goes through the records and payloads of one frame that was understood (bytes: Payloads). */
final class FrameOperations {
    private final DataFile file;
    private final Frame frame;
    private final FrameContent content;
    private final boolean isVouched;
    private long place;

    FrameOperations(DataFile file, Frame frame, FrameContent content, boolean isVouched) {
        this.file = file;
        this.frame = frame;
        this.content = content;
        this.isVouched = isVouched;
    }

    /** Notes in the frame whether a payload is bad, and the last undamaged low-water mark. */
    void examine() throws IOException {
        place = frame.offset + Frame.HEAD + frame.meta;
        for (FrameRecord record : content.records) {
            if (record.kind == Kind.PUT) {
                examineValue(record);
            }
            for (int i = 0; record.kind == Kind.ADD && i < record.count; i++) {
                frame.hasBadPayload |= !isMessageGood(record, i);
                place += record.size(i);
            }
        }
    }

    private void examineValue(FrameRecord record) throws IOException {
        if (!isValueGood(record)) {
            frame.hasBadPayload = true;
        } else if (record.name.equals(Operation.LOW_WATER_KEY)) {
            frame.lowWater = record.count == 8 ? file.u64(place) : 0;
        }
        place += record.count;
    }

    private boolean isMessageGood(FrameRecord record, int i) throws IOException {
        return file.hash(place, record.size(i), 0) == record.checksum(i);
    }

    private boolean isValueGood(FrameRecord record) throws IOException {
        return file.hash(place, record.count, 0) == record.number;
    }

    /** Whether the rows of a footer say the same of this frame; they stand behind it then. */
    boolean agreesWith(Columns.Rows rows) throws IOException {
        place = frame.offset + Frame.HEAD + frame.meta;
        for (FrameRecord record : content.records) {
            long count = record.kind == Kind.ADD ? record.count : 1;
            for (int i = 0; i < count; i++) {
                if (!rows.isOf(frame, record, i, payloadHash(record, i))) {
                    return false;
                }
                place += record.kind == Kind.ADD ? record.size(i) : 0;
                rows.next();
            }
            place += record.kind == Kind.PUT ? record.count : 0;
        }
        return !rows.isAt(frame.offset);
    }

    /** XXH3 of a message's payload without properties; 0 where it is not known, and for other records. */
    private long payloadHash(FrameRecord record, int i) throws IOException {
        if (record.kind != Kind.ADD) {
            return 0;
        }
        long propertiesSize = record.propertiesSize(i);
        if (propertiesSize == 0) {
            return record.checksum(i);
        }
        return isMessageGood(record, i) ? file.hash(place + propertiesSize, record.size(i) - propertiesSize, 0) : 0;
    }

    void tell(Consumer<Operation> consumer) throws IOException {
        place = frame.offset + Frame.HEAD + frame.meta;
        for (FrameRecord record : content.records) {
            switch (record.kind) {
                case Kind.ADD -> tellMessages(record, consumer);
                case Kind.PUT -> tellValue(record, consumer);
                case Kind.DROP -> consumer.accept(begin(record));
                case Kind.DELIVER, Kind.DELETE -> tellRemovals(record, consumer);
                default -> { } // a gap has no operation
            }
        }
    }

    private Operation begin(FrameRecord record) {
        Operation operation = new Operation(file.sequence, frame.offset, frame.commit, record.kind, record.name,
                frame.time, isVouched);
        operation.isMoved = record.has(Kind.MOVED);
        return operation;
    }

    private void tellMessages(FrameRecord record, Consumer<Operation> consumer) throws IOException {
        for (int i = 0; i < record.count; i++) {
            Operation operation = begin(record);
            operation.number = record.number(i);
            operation.producer = record.producer;
            operation.firstTime = record.firstTime(i, frame.time);
            operation.due = record.due(i);
            operation.expiry = record.expiry(i);
            operation.attempts = record.attempts(i);
            operation.group = record.group(i);
            operation.isDamaged = !isMessageGood(record, i);
            if (!operation.isDamaged) {
                readMessage(record, i, operation);
            }
            place += record.size(i);
            consumer.accept(operation);
        }
    }

    private void readMessage(FrameRecord record, int i, Operation operation) throws IOException {
        long propertiesSize = record.propertiesSize(i);
        operation.payload = file.hash(place + propertiesSize, record.size(i) - propertiesSize, 0);
        if (record.has(Kind.PROPERTIES)) {
            operation.properties = Operation.properties(file.bytes(place, (int) propertiesSize));
        }
    }

    private void tellValue(FrameRecord record, Consumer<Operation> consumer) throws IOException {
        Operation operation = begin(record);
        operation.isDamaged = !isValueGood(record);
        operation.payload = operation.isDamaged ? null : (Long) record.number;
        operation.value = operation.payload;
        place += record.count;
        consumer.accept(operation);
    }

    private void tellRemovals(FrameRecord record, Consumer<Operation> consumer) {
        record.removed.forEach(number -> {
            Operation operation = begin(record);
            operation.number = number;
            consumer.accept(operation);
        });
    }
}

/** A footer that passes checks 1 to 8 but 5 (bytes: Footer); its columns are read when they are needed. */
final class Footer {
    static final byte[] MAGIC = "OMSFOOT2".getBytes(StandardCharsets.US_ASCII);
    static final byte[] TRAILER_MAGIC = "2ATOOFSM".getBytes(StandardCharsets.US_ASCII);
    static final int TRAILER = 32;
    private static final int SUMMARY = 184;
    private static final int ENTRY = 32;
    private static final int SMALLEST = SUMMARY + Header.SIZE + TRAILER;
    private static final int WIDTH_OF_BYTES = 255;
    private static final int FLAG_REPAIRED = 1;

    private final DataFile file;
    private final long start;
    private final long size;
    final Header header;
    final long rows;
    final long end;
    private final long frames;
    final long lastCommit;
    final long chain;
    final long successor;
    final long successorIdentity;
    private final long columnCount;
    private final long flags;
    /** Lowest and highest: times, numbers of ADD, of removals, commits, offsets, first times (bytes: Footer). */
    final long[] ranges = new long[12];
    private final Map<Integer, Column> columns = new HashMap<>();

    /** One entry of the directory: where its column stands. */
    record Column(int id, int width, long base, long step, long size, long offset) {
    }

    /** Check 1: there is a trailer. */
    static boolean hasTrailer(DataFile file) throws IOException {
        return file.size >= TRAILER && file.has(TRAILER_MAGIC, file.size - 8);
    }

    /** The footer, or null if one of the checks 1 to 8 fails; 5 is left out. */
    static Footer read(DataFile file, String where) throws IOException {
        if (!hasTrailer(file)) {
            return null;
        }
        long size = file.u64(file.size - 16);
        long start = file.size - size;
        if (Unsigned.less(size, SMALLEST) || Unsigned.less(file.size - DataFile.FIRST_FRAME, size)
                || start < DataFile.FIRST_FRAME || !file.has(MAGIC, start)) {
            return null;
        }
        Header header = Header.decode(file.bytes(start + SUMMARY, Header.SIZE), where + ", in the footer");
        if (header == null) {
            return null;
        }
        Footer footer = new Footer(file, start, size, header);
        return footer.isWhole() && footer.readDirectory() ? footer : null;
    }

    private Footer(DataFile file, long start, long size, Header header) throws IOException {
        this.file = file;
        this.start = start;
        this.size = size;
        this.header = header;
        byte[] summary = file.bytes(start, SUMMARY);
        rows = Little.u64(summary, 16);
        end = Little.u64(summary, 24);
        frames = Little.u64(summary, 32);
        lastCommit = Little.u64(summary, 40);
        chain = Little.u64(summary, 48);
        successor = Little.u64(summary, 56);
        successorIdentity = Little.u64(summary, 64);
        columnCount = Little.u64(summary, 72);
        for (int i = 0; i < ranges.length; i++) {
            ranges[i] = Little.u64(summary, 80 + 8 * i);
        }
        flags = Little.u64(summary, 176);
    }

    /** Checks 4, 6 and 8. */
    private boolean isWhole() throws IOException {
        return file.u64(start + 8) == size
                && file.hash(start, size - 24, header.identity) == file.u64(file.size - 24)
                && !Unsigned.less(3, flags)
                && end == start
                && !Unsigned.less(end / 12, rows);
    }

    /** Check 7. */
    private boolean readDirectory() throws IOException {
        if (Unsigned.less((size - SMALLEST) / ENTRY, columnCount)) {
            return false;
        }
        long place = start + SUMMARY + Header.SIZE + ENTRY * columnCount;
        long columnsEnd = file.size - TRAILER;
        for (int i = 0; i < columnCount; i++) {
            byte[] entry = file.bytes(start + SUMMARY + Header.SIZE + (long) ENTRY * i, ENTRY);
            Column column = new Column(Little.u8(entry, 0), Little.u8(entry, 1), Little.u64(entry, 8),
                    Little.u64(entry, 16), Little.u64(entry, 24), place);
            if (Unsigned.less(columnsEnd - place, column.size) || !isSizeRight(column)) {
                return false;
            }
            if (columns.put(column.id, column) != null) {
                return false;
            }
            place += Little.padded(column.size);
        }
        return place == columnsEnd && hasAllColumns();
    }

    private boolean isSizeRight(Column column) {
        if (column.id >= Columns.NAMES && column.id <= Columns.GROUPS) {
            return column.width == WIDTH_OF_BYTES;
        }
        if (column.id < Columns.KIND || column.id > Columns.GROUP) {
            return true; // other ids are left alone
        }
        boolean widthIsKnown = column.width <= 8 && Integer.bitCount(column.width) <= 1;
        return widthIsKnown && column.size == column.width * rows;
    }

    private boolean hasAllColumns() {
        for (int id = Columns.KIND; id <= Columns.GROUPS; id++) {
            if ((id <= Columns.GROUP || id >= Columns.NAMES) && !columns.containsKey(id)) {
                return false;
            }
        }
        return true;
    }

    Column column(int id) {
        return columns.get(id);
    }

    byte[] bytesOf(Column column) throws IOException {
        if (column.size > Integer.MAX_VALUE - 64) {
            throw new IOException("a column of more than 2 GiB");
        }
        return file.bytes(column.offset, (int) column.size);
    }

    /** Checks 5, and 9 to 11. */
    boolean isGood(long identity) throws IOException {
        return header.identity == identity && isLastCommitRight() && new Columns(this).agree();
    }

    /** Reading, appendix, "footer commits". The header that a repair made does not say the first number. */
    private boolean isLastCommitRight() {
        return wasRepaired() || !header.isTelling || lastCommit == header.nextCommit + frames - 1;
    }

    /** Whether it ends as the next file says (reading: Where a frame is gone). */
    boolean endsAs(Ending ending) {
        return ending == null || end == ending.end()
                && (wasRepaired() || lastCommit == ending.commit() && chain == ending.chain());
    }

    boolean wasRepaired() {
        return (flags & FLAG_REPAIRED) != 0;
    }

    /** Whether the file checksum is right: XXH3 over the file up to the footer. */
    boolean provesTheFile() throws IOException {
        return file.hash(0, start, 0) == file.u64(file.size - TRAILER);
    }
}

/** The columns of a footer, in memory (bytes: Footer). */
final class Columns {
    static final int KIND = 1;
    static final int FLAGS = 2;
    static final int NAME = 3;
    static final int NUMBER = 4;
    static final int COUNT = 5;
    static final int SIZE = 6;
    static final int PROPERTIES = 7;
    static final int PRODUCER = 8;
    static final int OFFSET = 9;
    static final int COMMIT = 10;
    static final int TIME = 11;
    static final int FIRST_TIME = 12;
    static final int HASH = 13;
    static final int DUE = 14;
    static final int EXPIRY = 15;
    static final int ATTEMPTS = 16;
    static final int GROUP = 17;
    static final int NAMES = 32;
    static final int PRODUCERS = 33;
    static final int SETS = 34;
    static final int HEADS = 35;
    static final int GROUPS = 36;
    private static final int MOST_OF_A_HEAD = 128;
    private static final int TERMS = Kind.DUE | Kind.EXPIRY | Kind.ATTEMPTS | Kind.GROUP;
    /** What a commit may have: no set has more numbers (reading, appendix: "frame operations"). */
    private static final long MOST_NUMBERS = 1_000_000;

    private final Footer footer;
    private final Footer.Column[] entries = new Footer.Column[GROUP + 1];
    private final byte[][] numbers = new byte[GROUP + 1][];
    private final List<String> names;
    private final List<String> producers;
    private final List<String> groups;
    private final byte[] sets;
    private final byte[] heads;

    Columns(Footer footer) throws IOException {
        this.footer = footer;
        for (int id = KIND; id <= GROUP; id++) {
            entries[id] = footer.column(id);
            numbers[id] = footer.bytesOf(entries[id]);
        }
        names = texts(NAMES);
        producers = texts(PRODUCERS);
        groups = texts(GROUPS);
        sets = footer.bytesOf(footer.column(SETS));
        heads = footer.bytesOf(footer.column(HEADS));
    }

    /** Check 11: the texts of a column, or null if they are not as many as it says, or not UTF-8. */
    private List<String> texts(int id) throws IOException {
        Footer.Column column = footer.column(id);
        byte[] bytes = footer.bytesOf(column);
        List<String> texts = new ArrayList<>();
        for (int at = 0; at < bytes.length; ) {
            int size = Little.u8(bytes, at);
            String text = size > bytes.length - at - 1 ? null : Little.utf8(bytes, at + 1, size);
            if (text == null) {
                return null;
            }
            texts.add(text);
            at += 1 + size;
        }
        return texts.size() == column.base() ? texts : null;
    }

    /** The number in a row: base + step × row with width 0, else base + the row's number. */
    private long get(int id, long row) {
        Footer.Column entry = entries[id];
        int at = (int) (entry.width() * row);
        byte[] bytes = numbers[id];
        return entry.base() + switch (entry.width()) {
            case 0 -> entry.step() * row;
            case 1 -> Little.u8(bytes, at);
            case 2 -> Little.u16(bytes, at);
            case 4 -> Little.u32(bytes, at);
            default -> Little.u64(bytes, at);
        };
    }

    private int kind(long row) {
        return (int) get(KIND, row);
    }

    private boolean has(long row, int flag) {
        return (get(FLAGS, row) & flag) != 0;
    }

    /** Checks 9 to 11. */
    boolean agree() {
        if (names == null || producers == null || groups == null) {
            return false;
        }
        long setBytes = 0;
        long headBytes = 0;
        for (long row = 0; row < footer.rows; row++) {
            if (!isRowInRange(row) || !areTermsAllowed(row) || !areNumbersRight(row)) {
                return false;
            }
            setBytes += Kind.isRemoval(kind(row)) ? get(SIZE, row) : 0;
            headBytes += kind(row) == Kind.PUT ? headSize(row) : 0;
        }
        return footer.rows == 0
                || isLength(SETS, setBytes) && isLength(HEADS, headBytes) && areInOrder() && areSetsGood()
                        && areRangesRight();
    }

    /** Reading, appendix, "footer ranges". */
    private boolean areRangesRight() {
        Ranges found = new Ranges();
        for (Rows rows = rows(); rows.isThere(); rows.next()) {
            try {
                rows.addTo(found);
            } catch (NotUnderstood e) {
                return false;
            }
        }
        return Arrays.equals(found.bounds, footer.ranges);
    }

    /** Six times the lowest and the highest, (1, 0) for nothing. */
    private static final class Ranges {
        final long[] bounds = {1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0};
        private final boolean[] isSet = new boolean[6];

        void add(int which, long value) {
            bounds[2 * which] = isSet[which] ? Math.min(bounds[2 * which], value) : value;
            bounds[2 * which + 1] = isSet[which] ? Math.max(bounds[2 * which + 1], value) : value;
            isSet[which] = true;
        }
    }

    /** Reading, appendix, "footer fields". */
    private boolean areNumbersRight(long row) {
        long number = get(NUMBER, row);
        long count = get(COUNT, row);
        return switch (kind(row)) {
            case Kind.ADD -> count == 1 && number >= 0;
            case Kind.PUT, Kind.DROP -> count == 0 && number == 0;
            default -> !Unsigned.less(MOST_NUMBERS, count) && number >= 0;
        };
    }

    /** Reading, appendix, "footer order", and that no number is below those of the header. */
    private boolean areInOrder() {
        long lastAdded = -1;
        for (long row = 0; row < footer.rows; row++) {
            boolean isPlaced = !Unsigned.less(get(COMMIT, row), footer.header.nextCommit)
                    && (row == 0 || isBehind(row - 1, row));
            if (!isPlaced) {
                return false;
            }
            if (isNewMessage(row)) {
                long number = get(NUMBER, row);
                if (number <= lastAdded || Unsigned.less(number, footer.header.nextMessage)) {
                    return false;
                }
                lastAdded = number;
            }
        }
        return true;
    }

    /** Both rows are of one commit at one offset, or both numbers ascend. */
    private boolean isBehind(long before, long row) {
        long offset = get(OFFSET, row);
        long commit = get(COMMIT, row);
        return offset == get(OFFSET, before) ? commit == get(COMMIT, before)
                : Unsigned.less(get(OFFSET, before), offset) && Unsigned.less(get(COMMIT, before), commit);
    }

    private boolean isNewMessage(long row) {
        return kind(row) == Kind.ADD && !has(row, Kind.MOVED);
    }

    /** Reading, appendix, "footer sets" and "footer fields": each set can be decoded. */
    private boolean areSetsGood() {
        for (Rows rows = rows(); rows.isThere(); rows.next()) {
            try {
                rows.removed();
            } catch (NotUnderstood e) {
                return false;
            }
        }
        return true;
    }

    /** The highest number of an ADD without MOVED, or -1. */
    long lastAdded() {
        for (long row = footer.rows - 1; row >= 0; row--) {
            if (isNewMessage(row)) {
                return get(NUMBER, row);
            }
        }
        return -1;
    }

    private boolean isLength(int id, long bytes) {
        return footer.column(id).base() == bytes && footer.column(id).size() == bytes;
    }

    private boolean isRowInRange(long row) {
        long kind = get(KIND, row);
        return kind >= Kind.ADD && kind <= Kind.DROP
                && Unsigned.less(get(FLAGS, row), 512)
                && Unsigned.less(get(OFFSET, row), footer.end)
                && Unsigned.less(get(NAME, row), names.size())
                && !Unsigned.less(producers.size(), get(PRODUCER, row))
                && !Unsigned.less(groups.size(), get(GROUP, row))
                && (!Kind.isRemoval((int) kind) || get(COUNT, row) != 0
                        && !Unsigned.less(footer.column(SETS).size(), get(SIZE, row)));
    }

    private boolean areTermsAllowed(long row) {
        boolean isAdd = kind(row) == Kind.ADD;
        return (isAdd || !has(row, TERMS))
                && !Unsigned.less(0xffffffffL, get(ATTEMPTS, row))
                && (get(DUE, row) == 0 || has(row, Kind.DUE))
                && (get(EXPIRY, row) == 0 || has(row, Kind.EXPIRY))
                && (get(ATTEMPTS, row) == 0 || has(row, Kind.ATTEMPTS))
                && (get(GROUP, row) == 0 || has(row, Kind.GROUP));
    }

    private long headSize(long row) {
        return Unsigned.min(MOST_OF_A_HEAD, get(SIZE, row));
    }

    /** The low-water mark, or null (reading: Keys of the engine). */
    Long lowWater() {
        Long mark = null;
        for (Rows rows = rows(); rows.isThere(); rows.next()) {
            mark = rows.isLowWater() ? (Long) rows.lowWater() : mark;
        }
        return mark;
    }

    private String name(long row) {
        return names.get((int) get(NAME, row));
    }

    /** The text at the place that the column says, 1 for the first; null for 0. */
    private String textOf(int id, long row, List<String> texts) {
        long place = get(id, row);
        return place == 0 ? null : texts.get((int) place - 1);
    }

    /** All operations, in order. Of the frames only the properties of messages are read. */
    void tell(DataFile file, Consumer<Operation> consumer) throws IOException {
        PayloadPlace payloads = new PayloadPlace(file, footer.end);
        for (Rows rows = rows(); rows.isThere(); rows.next()) {
            rows.tell(payloads, consumer);
        }
    }

    Rows rows() {
        return new Rows();
    }

    /** Goes through the rows, in order; it knows where the set or the value of the current row begins. */
    final class Rows {
        private long row;
        private int setAt;
        private int headAt;

        boolean isThere() {
            return row < footer.rows;
        }

        long offset() {
            return get(OFFSET, row);
        }

        boolean isAt(long offset) {
            return isThere() && offset() == offset;
        }

        boolean isBefore(long offset) {
            return isThere() && Unsigned.less(offset(), offset);
        }

        int kind() {
            return Columns.this.kind(row);
        }

        void next() {
            setAt += Kind.isRemoval(kind()) ? (int) get(SIZE, row) : 0;
            headAt += kind() == Kind.PUT ? (int) headSize(row) : 0;
            row++;
        }

        private void addTo(Ranges ranges) throws NotUnderstood {
            ranges.add(0, get(TIME, row));
            ranges.add(3, get(COMMIT, row));
            ranges.add(4, offset());
            if (kind() == Kind.ADD) {
                ranges.add(1, get(NUMBER, row));
                ranges.add(5, get(has(row, Kind.MOVED) ? FIRST_TIME : TIME, row));
            } else if (Kind.isRemoval(kind())) {
                for (long[] run : removed().runs()) {
                    ranges.add(2, run[0]);
                    ranges.add(2, run[1]);
                }
            }
        }

        private boolean isDamaged() {
            return has(row, Kind.DAMAGED);
        }

        private boolean isLowWater() {
            return kind() == Kind.PUT && name(row).equals(Operation.LOW_WATER_KEY) && !isDamaged();
        }

        private long lowWater() {
            return get(SIZE, row) == 8 ? Little.u64(heads, headAt) : 0;
        }

        /** The set of a removal; null for a row of another kind. */
        private NumberSet removed() throws NotUnderstood {
            if (!Kind.isRemoval(kind())) {
                return null;
            }
            int size = (int) get(SIZE, row);
            if (size > 0) {
                return NumberSet.decode(sets, setAt, size, get(NUMBER, row), get(COUNT, row));
            }
            if (get(COUNT, row) != 1) {
                throw new NotUnderstood("one number, but another count");
            }
            return NumberSet.of(get(NUMBER, row));
        }

        /** XXH3 of a lost value that column 35 holds as a whole, or null (reading: Where a frame is gone, 5). */
        Long smallValue() {
            long size = get(SIZE, row);
            boolean isWhole = !Unsigned.less(MOST_OF_A_HEAD, size)
                    && Xxh3.of(heads, headAt, (int) size, 0) == get(HASH, row);
            return isWhole ? (Long) get(HASH, row) : null;
        }

        /** Tells the row, with the properties of its message where they can be read. */
        void tell(PayloadPlace payloads, Consumer<Operation> consumer) throws IOException {
            payloads.enter(offset());
            Operation operation = begin(isDamaged());
            if (kind() == Kind.ADD) {
                boolean hasProperties = has(row, Kind.PROPERTIES) && !operation.isDamaged;
                operation.properties = hasProperties ? payloads.properties(get(PROPERTIES, row)) : null;
                payloads.skip(get(PROPERTIES, row));
            }
            if (kind() == Kind.ADD || kind() == Kind.PUT) {
                payloads.skip(get(SIZE, row));
            }
            finish(operation, consumer);
        }

        /** Tells a row whose frame is gone (reading: Where a frame is gone, 2 to 5). */
        void tellLost(Consumer<Operation> consumer) {
            finish(begin(true), consumer);
        }

        private Operation begin(boolean isDamaged) {
            Operation operation = new Operation(footer.header.sequence, offset(), get(COMMIT, row), kind(), name(row),
                    get(TIME, row), true);
            operation.isMoved = has(row, Kind.MOVED);
            operation.isDamaged = isDamaged;
            return operation;
        }

        private void finish(Operation operation, Consumer<Operation> consumer) {
            switch (operation.kind) {
                case Kind.ADD -> fillMessage(operation);
                case Kind.PUT -> fillValue(operation);
                case Kind.DROP -> { } // all is said
                default -> {
                    tellRemovals(operation.isDamaged, consumer);
                    return;
                }
            }
            consumer.accept(operation);
        }

        private void fillMessage(Operation operation) {
            operation.number = get(NUMBER, row);
            operation.producer = textOf(PRODUCER, row, producers);
            operation.firstTime = operation.isMoved ? get(FIRST_TIME, row) : operation.time;
            operation.due = has(row, Kind.DUE) ? (Long) get(DUE, row) : null;
            operation.expiry = has(row, Kind.EXPIRY) ? (Long) get(EXPIRY, row) : null;
            operation.attempts = has(row, Kind.ATTEMPTS) ? (Long) get(ATTEMPTS, row) : null;
            operation.group = textOf(GROUP, row, groups);
            operation.payload = operation.isDamaged ? null : (Long) get(HASH, row);
        }

        private void fillValue(Operation operation) {
            operation.payload = operation.isDamaged ? null : (Long) get(HASH, row);
            operation.value = operation.isDamaged ? smallValue() : operation.payload;
        }

        private void tellRemovals(boolean isDamaged, Consumer<Operation> consumer) {
            try {
                removed().forEach(number -> {
                    Operation operation = begin(isDamaged);
                    operation.number = number;
                    consumer.accept(operation);
                });
            } catch (NotUnderstood e) {
                throw new IllegalStateException("a set of a good footer", e);
            }
        }

        /** Whether the row says what the record of a good frame says; of the message there, its place in the record. */
        boolean isOf(Frame frame, FrameRecord record, int i, long hash) {
            return isAt(frame.offset) && isHeadOf(frame, record) && switch (record.kind) {
                case Kind.ADD -> isMessageOf(record, i) && isHash(hash);
                case Kind.PUT -> get(SIZE, row) == record.count && isHash(record.number);
                case Kind.DROP -> get(SIZE, row) == 0;
                default -> isSetOf(record);
            };
        }

        private boolean isHeadOf(Frame frame, FrameRecord record) {
            return kind() == record.kind && (get(FLAGS, row) & ~Kind.DAMAGED) == record.flags
                    && name(row).equals(record.name)
                    && get(COMMIT, row) == frame.commit && get(TIME, row) == frame.time;
        }

        private boolean isMessageOf(FrameRecord record, int i) {
            return get(NUMBER, row) == record.number(i)
                    && get(SIZE, row) == record.size(i) - record.propertiesSize(i)
                    && get(PROPERTIES, row) == record.propertiesSize(i)
                    && get(FIRST_TIME, row) == record.firstTime(i, 0)
                    && Objects.equals(textOf(PRODUCER, row, producers), record.producer)
                    && areTermsOf(record, i);
        }

        private boolean areTermsOf(FrameRecord record, int i) {
            return isValue(DUE, record.due(i)) && isValue(EXPIRY, record.expiry(i))
                    && isValue(ATTEMPTS, record.attempts(i))
                    && Objects.equals(textOf(GROUP, row, groups), record.group(i));
        }

        private boolean isValue(int id, Long value) {
            return get(id, row) == (value == null ? 0 : value);
        }

        /** A hash of 0 on either side is not known, and does not count. */
        private boolean isHash(long hash) {
            return hash == 0 || get(HASH, row) == 0 || get(HASH, row) == hash;
        }

        private boolean isSetOf(FrameRecord record) {
            byte[] set = record.codedSet();
            return get(NUMBER, row) == record.number && get(COUNT, row) == record.count
                    && get(SIZE, row) == set.length && Little.startsWith(sets, setAt, set);
        }
    }
}

/** Where the payload of the current row stands: the columns do not say it, their order does. */
final class PayloadPlace {
    private final DataFile file;
    private final long end;
    private long frame = -1;
    private long place;

    PayloadPlace(DataFile file, long end) {
        this.file = file;
        this.end = end;
    }

    void enter(long offset) throws IOException {
        if (offset != frame) {
            frame = offset;
            boolean hasHead = offset >= 0 && offset <= end - Frame.HEAD;
            place = hasHead ? offset + Frame.HEAD + file.u32(offset + 12) : end;
        }
    }

    void skip(long bytes) {
        place = bytes < 0 || bytes > end - place ? end : place + bytes;
    }

    Map<String, String> properties(long size) throws IOException {
        boolean isThere = size >= 0 && size <= end - place && size <= Frame.MOST_BYTES;
        return isThere ? Operation.properties(file.bytes(place, (int) size)) : null;
    }
}

/** Text and hexadecimal digits. */
final class Text {
    static final String NO_DATABASE = "0".repeat(32);

    private Text() {
    }

    static String hex(byte[] bytes, int at, int size) {
        StringBuilder digits = new StringBuilder();
        for (int i = at; i < at + size; i++) {
            digits.append(Character.forDigit(bytes[i] >> 4 & 15, 16)).append(Character.forDigit(bytes[i] & 15, 16));
        }
        return digits.toString();
    }

    static String hex(long number) {
        return String.format("%016x", number);
    }
}

/** omsmsg.lock: the owner's number, and the witness (opening: omsmsg.lock). */
record LockFile(long owner, Witness witness) {
    private static final int LINE = 44;
    private static final int WITNESS_AT = 4096;
    private static final int WITNESS_SIZE = 104;
    private static final BigInteger OWNERS_END = BigInteger.ONE.shiftLeft(62);
    private static final Pattern OWNERS_LINE = Pattern.compile("owner (\\d{20}) ([0-9a-f]{16})\n");

    /** What the lock file says of the newest data file. */
    record Witness(String database, String parent, long parentSequence, long owner, long sequence, Ending ending) {
    }

    static LockFile read(Path path) throws IOException {
        byte[] bytes = SmallFile.read(path, 8192);
        Long owner = bytes == null ? null : ownerAt(bytes, 0);
        if (owner == null && bytes != null) {
            owner = ownerAt(bytes, 512);
        }
        return owner == null ? new LockFile(0, null) : new LockFile(owner, witnessOf(bytes));
    }

    private static Long ownerAt(byte[] bytes, int at) {
        if (bytes.length < at + LINE) {
            return null;
        }
        Matcher line = OWNERS_LINE.matcher(new String(bytes, at, LINE, StandardCharsets.ISO_8859_1));
        if (!line.matches() || !Text.hex(Xxh3.of(bytes, at, 26, 0)).equals(line.group(2))) {
            return null;
        }
        BigInteger owner = new BigInteger(line.group(1));
        return owner.compareTo(OWNERS_END) < 0 ? owner.longValue() : null;
    }

    private static Witness witnessOf(byte[] bytes) {
        if (bytes.length < WITNESS_AT + WITNESS_SIZE) {
            return null;
        }
        byte[] raw = Arrays.copyOfRange(bytes, WITNESS_AT, WITNESS_AT + WITNESS_SIZE);
        boolean isWhole = Little.startsWith(raw, 0, "OMSWITN1".getBytes(StandardCharsets.US_ASCII))
                && Xxh3.of(raw, 0, 96, 0) == Little.u64(raw, 96);
        if (!isWhole) {
            return null;
        }
        Ending ending = new Ending(Little.u64(raw, 64), Little.u64(raw, 72), Little.u64(raw, 80),
                Little.u64(raw, 88), null);
        return new Witness(Text.hex(raw, 8, 16), Text.hex(raw, 24, 16), Little.u64(raw, 40), Little.u64(raw, 48),
                Little.u64(raw, 56), ending);
    }
}

/** Reads the small files of a directory. */
final class SmallFile {
    private SmallFile() {
    }

    /** The first bytes of the file, at most so many; null if there is no such file. */
    static byte[] read(Path path, int most) throws IOException {
        try (var in = Files.newInputStream(path)) {
            return in.readNBytes(most);
        } catch (NoSuchFileException e) {
            return null;
        }
    }
}

/** omsmsg.backup (reading: A backup). */
final class Manifest {
    private static final byte[] MAGIC = Little.hex("894f4d53420d0a1a");
    private static final int FIXED = 160;
    private static final int ENTRY = 40;

    /** What the manifest says of one file. */
    record File(long identity, long size) {
    }

    final long lowWater;
    final long tailSequence;
    final Ending tail;
    final long nextMessage;
    final TreeMap<Long, File> files = Unsigned.map();

    static Manifest read(Path path) throws IOException {
        byte[] bytes = SmallFile.read(path, Integer.MAX_VALUE - 64);
        if (bytes == null) {
            return null;
        }
        if (bytes.length == 0 || bytes.length % 1024 != 0) {
            throw new Refused("omsmsg.backup: its length is not that of two copies");
        }
        int half = bytes.length / 2;
        for (int at = 0; at <= half; at += half) {
            byte[] copy = Arrays.copyOfRange(bytes, at, at + half);
            if (isWhole(copy)) {
                return new Manifest(copy);
            }
        }
        throw new Refused("omsmsg.backup: no copy is good");
    }

    /** Check 1. */
    private static boolean isWhole(byte[] copy) {
        long size = Little.u64(copy, 16);
        return Little.startsWith(copy, 0, MAGIC) && size >= FIXED + 8 && size <= copy.length
                && Xxh3.of(copy, 0, (int) size - 8, 0) == Little.u64(copy, (int) size - 8);
    }

    private Manifest(byte[] copy) {
        long count = Little.u64(copy, 144);
        checkKnown(copy, count);
        lowWater = Little.u64(copy, 64);
        tailSequence = Little.u64(copy, 72);
        tail = new Ending(Little.u64(copy, 80), Little.u64(copy, 88), Little.u64(copy, 96), Little.u64(copy, 104),
                null);
        nextMessage = Little.u64(copy, 112);
        for (int i = 0; i < count; i++) {
            int at = FIXED + ENTRY * i;
            if (Unsigned.less(3, Little.u64(copy, at + 32))) {
                throw new Refused("omsmsg.backup: unknown flags of an entry");
            }
            files.put(Little.u64(copy, at), new File(Little.u64(copy, at + 8), Little.u64(copy, at + 16)));
        }
    }

    /** Check 2. */
    private static void checkKnown(byte[] copy, long count) {
        if (Little.i32(copy, 8) != 1) {
            throw new Refused("omsmsg.backup: version " + Little.u32(copy, 8));
        }
        long source = Little.u64(copy, 152);
        boolean isKnown = (Little.i32(copy, 12) & ~3) == 0
                && !Unsigned.less(4352, source)
                && !Unsigned.less(copy.length / ENTRY, count)
                && Little.u64(copy, 16) == FIXED + ENTRY * count + Little.padded(source) + 8;
        if (!isKnown) {
            throw new Refused("omsmsg.backup: unknown flags, or sizes that do not add up");
        }
    }
}

/** The numbers of omsmsg.found (opening: omsmsg.found); the defaults if there is no good one. */
record FoundNumbers(long firstSequence, Long nextMessage) {
    private static final int MOST = 1 << 28;

    static FoundNumbers read(Path path) throws IOException {
        byte[] bytes = SmallFile.read(path, MOST);
        boolean isGood = bytes != null && bytes.length >= 8
                && Xxh3.of(bytes, 8, bytes.length - 8, 0) == Little.u64(bytes, 0);
        String json = isGood ? Little.utf8(bytes, 8, bytes.length - 8) : null;
        Object found = json == null ? null : new JsonParser(json).parse();
        Object numbers = found instanceof Map<?, ?> fields ? fields.get("numbers") : null;
        Long first = number(numbers, "first_sequence");
        return new FoundNumbers(first == null ? 1 : first, number(numbers, "next_message"));
    }

    private static Long number(Object fields, String name) {
        Object value = fields instanceof Map<?, ?> map ? map.get(name) : null;
        boolean fits = value instanceof BigInteger number && number.signum() >= 0 && number.bitLength() <= 64;
        return fits ? (Long) ((BigInteger) value).longValue() : null;
    }
}

/** A small parser of JSON: maps, lists, texts, BigInteger; other numbers and words are null. Null if it is none. */
final class JsonParser {
    private static final int DEEPEST = 100;
    private static final Pattern NUMBER = Pattern.compile("-?[0-9]{1,40}([.eE+-][0-9.eE+-]*)?");

    private final String text;
    private int at;
    private int depth;

    JsonParser(String text) {
        this.text = text;
    }

    Object parse() {
        try {
            return value();
        } catch (IllegalArgumentException | IndexOutOfBoundsException e) {
            return null;
        }
    }

    private char peek() {
        while (" \t\r\n".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
        return text.charAt(at);
    }

    private boolean takes(char wanted) {
        boolean isThere = peek() == wanted;
        at += isThere ? 1 : 0;
        return isThere;
    }

    private void expect(char wanted) {
        if (!takes(wanted)) {
            throw new IllegalArgumentException();
        }
    }

    private Object value() {
        if (depth++ > DEEPEST) {
            throw new IllegalArgumentException();
        }
        Object value = switch (peek()) {
            case '{' -> object();
            case '[' -> list();
            case '"' -> string();
            default -> word();
        };
        depth--;
        return value;
    }

    private Map<String, Object> object() {
        Map<String, Object> fields = new HashMap<>();
        expect('{');
        while (!takes('}')) {
            String name = string();
            expect(':');
            fields.put(name, value());
            if (!takes(',') && peek() != '}') {
                throw new IllegalArgumentException();
            }
        }
        return fields;
    }

    private List<Object> list() {
        List<Object> values = new ArrayList<>();
        expect('[');
        while (!takes(']')) {
            values.add(value());
            if (!takes(',') && peek() != ']') {
                throw new IllegalArgumentException();
            }
        }
        return values;
    }

    private String string() {
        expect('"');
        StringBuilder string = new StringBuilder();
        for (char c = text.charAt(at++); c != '"'; c = text.charAt(at++)) {
            string.append(c == '\\' ? escaped() : c);
        }
        return string.toString();
    }

    private char escaped() {
        char c = text.charAt(at++);
        if (c == 'u') {
            at += 4;
            return (char) Integer.parseInt(text.substring(at - 4, at), 16);
        }
        int known = "bfnrt".indexOf(c);
        return known < 0 ? c : "\b\f\n\r\t".charAt(known);
    }

    private Object word() {
        for (String word : new String[] {"true", "false", "null"}) {
            if (text.startsWith(word, at)) {
                at += word.length();
                return null;
            }
        }
        Matcher number = NUMBER.matcher(text).region(at, text.length());
        if (!number.lookingAt()) {
            throw new IllegalArgumentException();
        }
        at = number.end();
        return number.group(1) == null ? new BigInteger(number.group()) : null;
    }
}

/** A data file of the directory, and which header it has (reading: From files to facts). */
final class SurveyedFile implements Closeable {
    final long sequence;
    final DataFile data;
    /** The footer, if it passes checks 1 to 8, without 5; else null. */
    final Footer footer;
    Header header;
    /** The header of another file that stands here, or null. */
    Header stranger;
    boolean isLate;
    private final Header first;
    private final Header second;

    SurveyedFile(long sequence, Path path, long mostBytes) throws IOException {
        this.sequence = sequence;
        data = new DataFile(sequence, path, mostBytes);
        try {
            String name = path.getFileName().toString();
            first = Header.read(data, 0, name);
            second = Header.read(data, Header.SECOND_COPY, name);
            if (first == null && second == null) {
                Header.refuseOldVersion(data, name);
            }
            footer = Footer.read(data, name);
            chooseHeader();
        } catch (IOException | RuntimeException e) {
            data.close();
            throw e;
        }
        data.rest();
    }

    private void chooseHeader() {
        List<Header> candidates = new ArrayList<>(Arrays.asList(first, second));
        candidates.add(footer == null ? null : footer.header);
        candidates.removeIf(Objects::isNull);
        for (Header candidate : candidates) {
            if (candidate.sequence == sequence) {
                header = candidate;
                return;
            }
        }
        stranger = candidates.isEmpty() ? null : candidates.get(0);
    }

    boolean hasBothCopies() {
        return header != null && header.isSameAs(first) && header.isSameAs(second);
    }

    boolean isKept() {
        return header != null && !isLate;
    }

    @Override
    public void close() {
        data.close();
    }
}

/** From files to facts: what is in a directory, which files count, and the judgement of each (reading.md). */
final class DirectoryReading implements Closeable {
    private static final Pattern DATA_FILE = Pattern.compile("omsmsg-([0-9]{10})\\.data");
    /** The file is begun, but nobody says under which identity. */
    static final Long UNKNOWN = null;

    private final Path directory;
    private final TreeMap<Long, SurveyedFile> files = Unsigned.map();
    private final TreeMap<Long, SurveyedFile> kept = Unsigned.map();
    private final TreeMap<Long, Ending> endings = Unsigned.map();
    private final TreeMap<Long, Long> begun = Unsigned.map();
    private LockFile lock;
    private Manifest manifest;
    private FoundNumbers found = new FoundNumbers(1, null);
    private boolean witnessCounts;
    private long low;

    /** Why the directory is refused, or null. */
    String refusal;
    /** In order of sequence, those below the low-water mark left out. */
    final List<Judgement> judgements = new ArrayList<>();

    private DirectoryReading(Path directory) {
        this.directory = directory;
    }

    static DirectoryReading of(String name) {
        DirectoryReading reading = new DirectoryReading(Paths.get(name));
        try {
            reading.read();
        } catch (Refused e) {
            reading.refusal = e.getMessage();
        } catch (IOException e) {
            reading.refusal = "it cannot be read: " + e;
        }
        if (reading.refusal != null) {
            reading.judgements.clear();
        }
        return reading;
    }

    @Override
    public void close() {
        files.values().forEach(SurveyedFile::close);
    }

    boolean isClean() {
        return refusal == null && judgements.stream().allMatch(judgement -> judgement.row.verdict().equals("clean"));
    }

    /** Two readings with the same summary saw the same. */
    String summary() {
        StringBuilder summary = new StringBuilder(String.valueOf(refusal));
        for (Judgement judgement : judgements) {
            summary.append('\n').append(judgement.sequence).append(' ').append(judgement.row.name())
                    .append(' ').append(judgement.goodEnd());
        }
        return summary.toString();
    }

    private void read() throws IOException {
        if (!Files.isDirectory(directory)) {
            throw new Refused("there is no such directory");
        }
        if (Files.exists(directory.resolve("omsmsg.restore"))) {
            throw new Refused("a backup is being copied into this directory");
        }
        lock = LockFile.read(directory.resolve("omsmsg.lock"));
        manifest = Manifest.read(directory.resolve("omsmsg.backup"));
        if (manifest != null && manifest.files.isEmpty()) {
            throw new Refused("no backup was ever finished here");
        }
        checkHold();
        found = FoundNumbers.read(directory.resolve("omsmsg.found"));
        listFiles();
        refuseStrangers();
        findLateFiles();
        low = lowestNeeded();
        new Lineage(low).check();
        witnessCounts = doesWitnessCount();
        collectEndings();
        if (manifest == null) {
            collectBegun();
        }
        checkSplit();
        judgeAll();
    }

    /** Reading, "Keys of the engine": refuse to read if its checksum is wrong. */
    private void checkHold() throws IOException {
        byte[] hold = SmallFile.read(directory.resolve("omsmsg.hold"), 64);
        if (hold != null && (hold.length != 16 || Xxh3.of(hold, 0, 8, 0) != Little.u64(hold, 8))) {
            throw new Refused("omsmsg.hold has a wrong checksum");
        }
    }

    private void listFiles() throws IOException {
        TreeMap<Long, Path> paths = Unsigned.map();
        try (DirectoryStream<Path> entries = Files.newDirectoryStream(directory)) {
            for (Path path : entries) {
                Matcher name = DATA_FILE.matcher(path.getFileName().toString());
                if (name.matches() && Files.isRegularFile(path)) {
                    paths.put(Long.valueOf(name.group(1)), path);
                }
            }
        }
        paths.remove(0L);
        if (manifest != null) {
            paths.keySet().retainAll(manifest.files.keySet());
        }
        for (Map.Entry<Long, Path> entry : paths.entrySet()) {
            long size = manifest == null ? Long.MAX_VALUE : manifest.files.get(entry.getKey()).size();
            try {
                files.put(entry.getKey(), new SurveyedFile(entry.getKey(), entry.getValue(), size));
            } catch (NoSuchFileException e) {
                // Clean-up has removed it since the directory was listed.
            }
        }
    }

    private void findLateFiles() {
        long highest = 0;
        for (SurveyedFile file : files.values()) {
            if (file.header == null) {
                continue;
            }
            if (Unsigned.less(file.header.owner, highest)) {
                file.isLate = true;
            } else if (file.header.previousSequence != 0) {
                passOver(file.header);
            }
            highest = Unsigned.max(highest, file.header.owner);
        }
        files.forEach((sequence, file) -> {
            if (file.isKept()) {
                kept.put(sequence, file);
            }
        });
    }

    /** What stands between a file and the one before it, of a lower owner, is late. */
    private void passOver(Header header) {
        for (SurveyedFile between
                : files.subMap(header.previousSequence, false, header.sequence, false).values()) {
            if (between.header == null || Unsigned.less(between.header.owner, header.owner)) {
                between.isLate = true;
            }
        }
    }

    private long lowestNeeded() {
        long lowest = manifest == null ? 0 : manifest.lowWater;
        for (SurveyedFile file : kept.values()) {
            lowest = Unsigned.max(lowest, file.header.lowWater);
        }
        return lowest;
    }

    private boolean doesWitnessCount() {
        LockFile.Witness witness = lock.witness();
        if (manifest != null || witness == null || witness.sequence() == 0) {
            return false;
        }
        for (SurveyedFile file : kept.values()) {
            if (Unsigned.less(witness.owner(), file.header.owner)) {
                return false;
            }
        }
        Header newest = kept.isEmpty() ? null : kept.lastEntry().getValue().header;
        return newest == null || newest.database.equals(witness.database())
                || newest.database.equals(witness.parent())
                        && !Unsigned.less(witness.parentSequence(), newest.sequence);
    }

    private void collectEndings() {
        for (SurveyedFile file : kept.descendingMap().values()) {
            if (file.header.previousSequence != 0) {
                endings.put(file.header.previousSequence, file.header.previous);
            }
        }
        if (manifest != null && manifest.tailSequence != 0) {
            endings.put(manifest.tailSequence, manifest.tail);
        }
        if (witnessCounts) {
            LockFile.Witness witness = lock.witness();
            boolean isNewest = kept.isEmpty() || !Unsigned.less(witness.sequence(), kept.lastKey());
            if (witness.ending().end() != 0 && isNewest) {
                endings.putIfAbsent(witness.sequence(), witness.ending());
            }
        }
    }

    private void collectBegun() {
        for (SurveyedFile file : kept.values()) {
            Map.Entry<Long, SurveyedFile> next = files.higherEntry(file.sequence);
            boolean isFollowed = next != null && next.getValue().isKept()
                    && !next.getKey().equals(kept.lastKey());
            boolean namesSuccessor = file.footer != null && file.footer.successor != 0;
            if (!isFollowed && namesSuccessor && !isFollowedByAnother(file)) {
                begun.put(file.footer.successor, file.footer.successorIdentity);
            }
        }
        if (witnessCounts && !begun.containsKey(lock.witness().sequence())) {
            begun.put(lock.witness().sequence(), lock.witness().ending().identity());
        }
        for (SurveyedFile file : kept.values()) {
            long last = file.header.parentSequence;
            if (last != 0 && !begun.containsKey(last)) {
                begun.put(last, UNKNOWN);
            }
        }
        if (kept.isEmpty() && !files.isEmpty()) {
            beginFirst(files.firstKey());
        }
    }

    private boolean isFollowedByAnother(SurveyedFile file) {
        return kept.values().stream().anyMatch(other -> other.header.previousSequence == file.sequence
                && other.sequence != file.footer.successor);
    }

    private void beginFirst(long first) {
        boolean isBehindWitness = witnessCounts && Unsigned.less(lock.witness().sequence(), first);
        boolean isBehindFirst = first > 1 && Unsigned.less(found.firstSequence(), first);
        if (isBehindFirst && !isBehindWitness && !begun.containsKey(first)) {
            begun.put(first, UNKNOWN);
        }
    }

    /** Reading, "Split": a parent that has gone on. */
    private void checkSplit() throws IOException {
        for (Map.Entry<Long, Ending> entry : endings.entrySet()) {
            Header said = entry.getValue().said();
            SurveyedFile file = files.get(entry.getKey());
            boolean isOfParent = said != null && file != null && file.header != null
                    && !file.header.database.equals(said.database);
            if (isOfParent && goesOnBehind(file, entry.getValue().end())) {
                throw new Refused("file " + Unsigned.text(file.sequence)
                        + ": the database that was backed up has gone on here");
            }
        }
    }

    private static boolean goesOnBehind(SurveyedFile file, long end) throws IOException {
        long identity = file.header.identity;
        if (file.footer != null && file.footer.isGood(identity)) {
            return Unsigned.less(end, file.footer.end);
        }
        boolean isInFile = end >= 0 && end < file.data.size;
        long from = Math.max(end, DataFile.FIRST_FRAME);
        return isInFile && file.data.nextFrame(from, file.data.size, identity) != null;
    }

    private void judgeAll() throws IOException {
        TreeSet<Long> sequences = new TreeSet<>(Long::compareUnsigned);
        sequences.addAll(files.keySet());
        sequences.addAll(endings.keySet());
        sequences.addAll(begun.keySet());
        if (manifest != null) {
            sequences.addAll(manifest.files.keySet());
        }
        long mark = 0;
        long lastAdded = -1;
        for (Long sequence : sequences.tailSet(low, true)) {
            SurveyedFile file = files.get(sequence);
            Judgement judgement = new Judge(sequence, file, endings.get(sequence), begun.containsKey(sequence),
                    begun.get(sequence), lastAdded).judge();
            judgements.add(judgement);
            lastAdded = Math.max(lastAdded, judgement.lastAdded());
            mark = judgement.lowWater == null ? mark : Unsigned.max(mark, judgement.lowWater);
            if (file != null) {
                file.data.rest();
            }
        }
        new Lineage(mark).check();
        long lowest = mark;
        judgements.removeIf(judgement -> Unsigned.less(judgement.sequence, lowest));
    }

    /** Reading, appendix, "header place": a file with the header of another is refused wherever it stands. */
    private void refuseStrangers() {
        for (SurveyedFile file : files.values()) {
            if (file.stranger != null) {
                throw new Refused("file " + Unsigned.text(file.sequence) + " has the header of file "
                        + Unsigned.text(file.stranger.sequence));
            }
        }
    }

    /** The next message's number is at least this, or null (opening: Numbers that never come again). */
    Long nextMessageAtLeast() {
        Long next = found.nextMessage();
        next = manifest == null ? next : higher(next, manifest.nextMessage);
        for (SurveyedFile file : kept.values()) {
            next = file.header.isTelling ? higher(next, file.header.nextMessage) : next;
        }
        return next;
    }

    static Long higher(Long known, long other) {
        return known == null ? other : (Long) Unsigned.max(known, other);
    }

    /** Reading, "Lineage". */
    private final class Lineage {
        private final long lowest;
        private final List<Header> headers = new ArrayList<>();

        Lineage(long lowest) {
            this.lowest = lowest;
            for (SurveyedFile file : files.descendingMap().values()) {
                if (file.header != null) {
                    headers.add(file.header);
                }
            }
        }

        void check() {
            Header mine = null;
            for (Header header : headers) {
                if (!header.isTelling || mine != null && header.database.equals(mine.database)) {
                    continue;
                }
                if (mine != null && !isAncestor(header, mine)) {
                    throw new Refused("file " + Unsigned.text(header.sequence) + " is of another database");
                }
                mine = header;
            }
        }

        private boolean isAncestor(Header header, Header mine) {
            if (Unsigned.less(mine.parentSequence, header.sequence)) {
                return false;
            }
            return header.database.equals(mine.parent) || isNameless(mine);
        }

        private boolean isNameless(Header mine) {
            long last = mine.parentSequence;
            boolean isTold = headers.stream().anyMatch(header -> header.isTelling && header.sequence == last);
            return !mine.parent.equals(Text.NO_DATABASE) && !isTold
                    && (files.containsKey(last) || mayBeLost(last));
        }

        private boolean mayBeLost(long last) {
            String name = directory.toAbsolutePath().normalize().getFileName() + "";
            if (name.equals(headers.get(0).database)) {
                return true;
            }
            if (Unsigned.less(last, lowest)) {
                return false;
            }
            return manifest != null ? areAllAsInManifest()
                    : headers.stream().noneMatch(header -> Unsigned.less(lock.owner(), header.owner));
        }

        private boolean areAllAsInManifest() {
            return headers.stream()
                    .allMatch(header -> manifest.files.get(header.sequence).identity() == header.identity);
        }
    }
}

/** One row of the table in reading.md, "Clean, torn or damaged". */
record Row(String name, String header, String body, String footer, String followed, String verdict, String action) {
    private static final List<Row> ROWS = """
            missing | - | missing | - | - | damaged | entomb
            emptied | - | zero | - | yes | damaged | entomb
            prepared | - | zero | - | no | clean | remove
            late | - | late | - | - | torn | drop
            torn at birth | - | unknown | absent | no | torn | drop
            lost header | - | unknown, lost | - | - | damaged | entomb
            lost header | none | - | - | - | damaged | entomb
            damaged | - | bad | - | - | damaged | rebuild
            damaged | - | empty, disowned, torn | - | yes | damaged | rebuild
            damaged footer | - | - | bad | - | damaged | rebuild
            damaged header | rotted | - | - | - | damaged | rebuild
            damaged | - | empty, disowned, torn | good | - | damaged | rebuild
            never begun | - | empty | - | - | torn | drop
            told as failed | - | disowned | - | - | torn | cut
            torn | - | torn | - | - | torn | cut
            torn header | half | - | absent | no | torn | cut
            damaged header | half | - | - | - | damaged | rebuild
            damaged padding | - | padding | - | - | damaged | rebuild
            other ending | - | - | - | otherwise | damaged | rebuild
            sealed | - | - | good | - | clean | keep
            unsealed | - | - | - | - | clean | seal
            """.lines().map(Row::parse).toList();

    private static Row parse(String line) {
        String[] cells = line.split(" \\| ");
        return new Row(cells[0], cells[1], cells[2], cells[3], cells[4], cells[5], cells[6]);
    }

    /** The first row that fits. */
    static Row of(String header, String body, String footer, String followed) {
        return ROWS.stream().filter(row -> fits(row.header, header) && fits(row.body, body)
                && fits(row.footer, footer) && fits(row.followed, followed)).findFirst().orElseThrow();
    }

    private static boolean fits(String cell, String value) {
        return cell.equals("-") || Arrays.asList(cell.split(", ")).contains(value);
    }

    boolean countsFrames() {
        return List.of("keep", "seal", "cut", "rebuild").contains(action);
    }
}

/** What was found out about one file. */
final class Judgement {
    final long sequence;
    Row row;
    /** Where the good frames end, unsigned; 0 if no frame was looked for. */
    long good;
    /** A place is vouched for if it is below this. */
    long vouched;
    Long lowWater;
    /** The frames before `good`, or null if the footer's columns say it all. */
    List<Frame> frames = List.of();
    /** The footer whose columns say it all, or null. */
    Footer columns;
    /** The footer whose rows hold where a frame is gone, or null (reading: Where a frame is gone). */
    Footer secondCopy;
    /** The highest number of an ADD without MOVED in the rows of a footer that counts, or -1. */
    long lastAddedInRows = -1;
    private final DataFile file;
    private final int alignment;

    Judgement(long sequence, DataFile file, int alignment) {
        this.sequence = sequence;
        this.file = file;
        this.alignment = alignment;
    }

    long goodEnd() {
        return row.countsFrames() ? good : 0;
    }

    /** The highest number of a message that was added here and not moved, or -1. */
    long lastAdded() {
        return row.countsFrames()
                ? Math.max(lastAddedInRows, frames.stream().mapToLong(frame -> frame.lastAdded).max().orElse(-1)) : -1;
    }

    /** Tells all operations before `good`. */
    void tell(Consumer<Operation> consumer) throws IOException {
        if (!row.countsFrames() || file == null) {
            return;
        }
        if (columns != null) {
            new Columns(columns).tell(file, consumer);
        }
        if (secondCopy != null) {
            tellWithSecondCopy(new Columns(secondCopy).rows(), consumer);
        } else {
            for (Frame frame : goodFrames()) {
                contentOf(frame).tell(consumer);
            }
        }
        file.rest();
    }

    /** All frames before `good` whose records count. */
    private List<Frame> goodFrames() {
        return frames.stream().filter(frame -> frame.isUnderstood && !frame.isGap()).toList();
    }

    /** The rows that are not of a good frame are those of damaged bad ranges and gap frames: see agreesWith. */
    private void tellWithSecondCopy(Columns.Rows rows, Consumer<Operation> consumer) throws IOException {
        for (Frame frame : goodFrames()) {
            tellLostBefore(frame.offset, rows, consumer);
            contentOf(frame).tell(operation -> {
                completeValue(operation, rows);
                consumer.accept(operation);
            });
            while (rows.isAt(frame.offset)) {
                rows.next();
            }
        }
        tellLostBefore(good, rows, consumer);
    }

    private static void tellLostBefore(long offset, Columns.Rows rows, Consumer<Operation> consumer) {
        for (; rows.isBefore(offset); rows.next()) {
            rows.tellLost(consumer);
        }
    }

    /** A value that has rotted in a good frame is the one of column 35, if that has all of it. */
    private static void completeValue(Operation operation, Columns.Rows rows) {
        if (operation.kind != Kind.PUT) {
            return;
        }
        while (rows.kind() != Kind.PUT) {
            rows.next();
        }
        operation.value = operation.isDamaged ? rows.smallValue() : operation.value;
        rows.next();
    }

    /** Reading, "Where a frame is gone", 1: a good frame wins over the footer, which has its rows and no other. */
    boolean agreesWith(Footer footer) throws IOException {
        Columns.Rows rows = new Columns(footer).rows();
        long end = DataFile.FIRST_FRAME;
        for (Frame frame : goodFrames()) {
            if (rows.isBefore(end)) {
                return false; // in the midst of the frame before, or in the header
            }
            while (rows.isBefore(frame.offset)) {
                rows.next();
            }
            if (!contentOf(frame).agreesWith(rows)) {
                return false;
            }
            end = frame.end();
        }
        return !rows.isBefore(end);
    }

    private FrameOperations contentOf(Frame frame) throws IOException {
        try {
            FrameContent content = FrameContent.read(file, frame, alignment);
            return new FrameOperations(file, frame, content, Unsigned.less(frame.offset, vouched));
        } catch (NotUnderstood e) {
            throw new IOException("a frame has changed while it was read");
        }
    }
}

/** A range of bytes that is no frame, or a frame that is not understood; the end is unsigned. */
record BadRange(long start, long end, boolean isFrame) {
}

/** The walk from frame to frame (reading: The walk). */
final class Walk {
    final List<Frame> frames = new ArrayList<>();
    final List<BadRange> badRanges = new ArrayList<>();
    private final DataFile file;
    private final long identity;
    private final int alignment;
    private final FrameOrder order;

    /** @param limit where frames end at the latest, unsigned */
    Walk(DataFile file, long identity, int alignment, FrameOrder order, long limit) throws IOException {
        this.order = order;
        this.file = file;
        this.identity = identity;
        this.alignment = alignment;
        long end = Unsigned.min(limit, file.size);
        long offset = DataFile.FIRST_FRAME;
        while (offset < end) {
            Frame frame = file.frameAt(offset, end, identity);
            if (frame != null) {
                take(frame);
                offset = frame.end();
            } else if (file.isZero(offset, end)) {
                break;
            } else {
                offset = passBadRange(offset, end);
            }
        }
    }

    private void take(Frame frame) throws IOException {
        frames.add(frame);
        try {
            order.takeCommit(frame);
            FrameContent content = FrameContent.read(file, frame, alignment);
            order.takeMessages(content);
            frame.lastAdded = content.lastAdded;
            if (!frame.isGap()) {
                new FrameOperations(file, frame, content, false).examine();
            }
        } catch (NotUnderstood e) {
            frame.isUnderstood = false;
            badRanges.add(new BadRange(frame.offset, frame.end(), true));
        }
    }

    private long passBadRange(long offset, long limit) throws IOException {
        Frame next = file.nextFrame(offset + Frame.HEAD, limit, identity);
        long end = next != null ? next.offset
                : Math.min(limit, Little.padded(file.endOfContent(offset, limit)));
        badRanges.add(new BadRange(offset, end, false));
        order.passBadRange(end - offset);
        return end;
    }

    /** The end of the last frame. */
    long last() {
        return frames.isEmpty() ? DataFile.FIRST_FRAME : frames.get(frames.size() - 1).end();
    }

    long highestSynced() {
        long highest = 0;
        for (Frame frame : frames) {
            highest = Unsigned.less(frame.offset, frame.synced) ? highest : Unsigned.max(highest, frame.synced);
        }
        return highest;
    }

    /** The file is known to end at `end`: what is behind the last frame is one bad range up to there. */
    void extendTo(long end) {
        long last = last();
        long start = last;
        for (BadRange range : badRanges) {
            if (range.start() >= last) {
                start = range.start();
                break;
            }
        }
        badRanges.removeIf(range -> range.start() >= last);
        badRanges.add(new BadRange(start, end, false));
    }

    /** A file that was begun has no frame: its first place was promised. */
    void loseFirstGroup() {
        long end = DataFile.FIRST_FRAME + 128;
        for (BadRange range : badRanges) {
            end = Unsigned.max(end, range.end());
        }
        badRanges.clear();
        badRanges.add(new BadRange(DataFile.FIRST_FRAME, end, false));
    }
}

/** Judges one file (reading: Judging one file). */
final class Judge {
    private final long sequence;
    private final SurveyedFile survey;
    private final DataFile file;
    private final Ending ending;
    private final boolean isBegun;
    private final Long begunIdentity;
    private final long lastAddedBefore;
    private final Judgement judgement;
    private final int alignment;
    private long identity;
    private Footer goodFooter;
    private String footerColumn = "absent";
    /** The known end of the frames, or null. */
    private Long knownEnd;
    private Walk walk;

    /** @param lastAddedBefore the highest number that was added in the files before, or -1 */
    Judge(long sequence, SurveyedFile survey, Ending ending, boolean isBegun, Long begunIdentity,
            long lastAddedBefore) {
        this.lastAddedBefore = lastAddedBefore;
        this.sequence = sequence;
        this.survey = survey;
        this.file = survey == null ? null : survey.data;
        this.ending = ending;
        this.isBegun = isBegun;
        this.begunIdentity = begunIdentity;
        boolean hasHeader = survey != null && survey.header != null;
        this.alignment = hasHeader ? survey.header.alignment : Frame.ALIGNMENT_WITHOUT_HEADER;
        this.judgement = new Judgement(sequence, file, alignment);
    }

    Judgement judge() throws IOException {
        String body = bodyWithoutFrames();
        if (body != null) {
            judgement.row = Row.of("none", body, "absent", ending != null || isBegun ? "yes" : "no");
            return judgement;
        }
        checkFooter();
        if (doesFooterFit() && goodFooter.provesTheFile()) {
            takeColumns();
        } else {
            takeWalk();
        }
        return judgement;
    }

    /** The cases in which no frame can be read, or null. */
    private String bodyWithoutFrames() throws IOException {
        if (survey == null) {
            return "missing";
        }
        if (survey.header == null && file.isZero(0, file.size)) {
            return "zero";
        }
        if (survey.isLate) {
            return "late";
        }
        Long known = knownIdentity();
        if (known == null) {
            return hasLostFrames() ? "lost" : "unknown";
        }
        identity = known;
        return null;
    }

    private Long knownIdentity() throws IOException {
        if (survey.header != null) {
            return survey.header.identity;
        }
        if (ending != null) {
            return ending.identity();
        }
        if (begunIdentity != null) {
            return begunIdentity;
        }
        Frame first = file.frameAt(DataFile.FIRST_FRAME, file.size, null);
        return first == null ? null : (Long) first.identity;
    }

    private boolean hasLostFrames() throws IOException {
        long last = file.size - Frame.HEAD;
        for (long offset = DataFile.FIRST_FRAME; offset <= last; offset += 8) {
            long synced = file.u64(offset + 32);
            boolean isSynced = Unsigned.less(DataFile.FIRST_FRAME, synced) && !Unsigned.less(offset, synced);
            if (isSynced && file.frameAt(offset, file.size, null) != null) {
                return true;
            }
        }
        return false;
    }

    private void checkFooter() throws IOException {
        if (survey.footer != null && survey.footer.isGood(identity)) {
            goodFooter = survey.footer;
            footerColumn = "good";
        } else if (Footer.hasTrailer(file)) {
            footerColumn = "bad";
        }
    }

    private boolean doesFooterFit() {
        return goodFooter != null && goodFooter.header.isSameAs(survey.header)
                && (ending == null || ending.end() == goodFooter.end);
    }

    private void takeColumns() throws IOException {
        judgement.columns = goodFooter;
        judgement.good = goodFooter.end;
        judgement.vouched = goodFooter.end;
        Columns columns = new Columns(goodFooter);
        judgement.lowWater = columns.lowWater();
        judgement.lastAddedInRows = columns.lastAdded();
        boolean isOtherwise = ending != null && !goodFooter.wasRepaired()
                && differs(goodFooter.end, goodFooter.lastCommit, goodFooter.chain);
        judgement.row = Row.of(headerColumn(), "whole", footerColumn, followed(isOtherwise));
    }

    private boolean differs(long end, long commit, long chain) {
        return ending.identity() != identity || ending.end() != end || ending.commit() != commit
                || ending.chain() != chain;
    }

    private String followed(boolean isOtherwise) {
        return ending == null ? "no" : isOtherwise ? "otherwise" : "yes";
    }

    private String headerColumn() {
        if (survey.hasBothCopies()) {
            return "good";
        }
        boolean isHalf = footerColumn.equals("absent") && knownEnd == null && !isBegun && judgement.vouched == 0;
        return isHalf ? "half" : "rotted";
    }

    private void takeWalk() throws IOException {
        walkAll();
        judgement.vouched = knownEnd != null ? knownEnd : walk.highestSynced();
        if (isBegun && knownEnd == null) {
            judgement.vouched = Unsigned.max(judgement.vouched, DataFile.FIRST_FRAME + 1);
            if (walk.frames.isEmpty()) {
                walk.loseFirstGroup();
            }
        }
        String body = new GoodEnd(walk, judgement).body();
        takeSecondCopy();
        if (body.equals("whole") && goodFooter != null && !goodFooter.provesTheFile()) {
            body = "padding";
        }
        judgement.row = Row.of(headerColumn(), body, footerColumn, followed(ending != null && endsOtherwise()));
    }

    /** Reading, "Where a frame is gone": a footer that contradicts a good frame is damaged, and tells nothing. */
    private void takeSecondCopy() throws IOException {
        if (goodFooter == null || !goodFooter.endsAs(ending)) {
            return;
        }
        if (judgement.agreesWith(goodFooter)) {
            judgement.secondCopy = goodFooter;
            judgement.lastAddedInRows = new Columns(goodFooter).lastAdded();
        } else {
            goodFooter = null;
            footerColumn = "bad";
        }
    }

    /** The second half of the section "The walk", sentence by sentence. */
    private void walkAll() throws IOException {
        knownEnd = ending != null ? (Long) ending.end() : goodFooter != null ? (Long) goodFooter.end : null;
        Long sealedAt = sealedAt();
        long limit = limit(sealedAt);
        walk(limit);
        int count = walk.frames.size();
        if (knownEnd != null && count > 0 && Unsigned.less(walk.last(), knownEnd)
                && Unsigned.less(knownEnd, walk.last() + Frame.HEAD)) {
            walk(walk.frames.get(count - 1).offset);
        }
        if (knownEnd == null && sealedAt != null) {
            knownEnd = sealedAt; // what stands before a footer was durable
        }
        long end = knownEnd != null ? knownEnd : walk.last();
        if (footerColumn.equals("absent") && sealedAt != null && sealedAt == end) {
            footerColumn = "bad";
        }
        if (footerColumn.equals("absent") && walk.frames.stream().anyMatch(Frame::isGap)) {
            footerColumn = "bad"; // a repair writes both at once
        }
        if (knownEnd == null && file.has(Footer.MAGIC, walk.last())) {
            walk(walk.last()); // a footer was begun: no bad range
        }
        if (knownEnd != null && Unsigned.less(walk.last(), knownEnd)) {
            walk.extendTo(knownEnd);
        }
    }

    private void walk(long limit) throws IOException {
        FrameOrder order = new FrameOrder(survey.header, lastAddedBefore);
        walk = new Walk(file, identity, alignment, order, limit);
    }

    private long limit(Long sealedAt) throws IOException {
        if (knownEnd != null) {
            return knownEnd;
        }
        if (sealedAt != null) {
            return sealedAt;
        }
        long place = footerColumn.equals("bad") ? file.lastPlaceOf(Footer.MAGIC) : -1;
        return place > DataFile.FIRST_FRAME && place % 8 == 0 ? place : file.size;
    }

    /** Where a footer was once, as one of its two ends says, or null. */
    private Long sealedAt() throws IOException {
        Long trailerSize = Footer.hasTrailer(file) ? (Long) file.u64(file.size - 16) : null;
        Long byTrailer = trailerSize == null ? null : (Long) (file.size - trailerSize);
        for (Long start : Arrays.asList((Long) file.lastPlaceOf(Footer.MAGIC), byTrailer)) {
            if (start == null || start < DataFile.FIRST_FRAME || start % 8 != 0 || start > file.size) {
                continue;
            }
            long size = file.size - start;
            boolean saysBegin = size >= 16 && file.has(Footer.MAGIC, start) && file.u64(start + 8) == size;
            if (saysBegin || trailerSize != null && trailerSize == size) {
                return start;
            }
        }
        return null;
    }

    private boolean endsOtherwise() {
        Chain chain = new Chain();
        long lastCommit = 0;
        for (Frame frame : judgement.frames) {
            if (frame.isGap()) {
                return false;
            }
            chain.add(frame.checksum);
            lastCommit = frame.commit;
        }
        return differs(judgement.good, lastCommit, chain.hash());
    }
}

/** The good end of a walk, and the body that follows from it (reading: The good end). */
final class GoodEnd {
    private final Walk walk;
    private final Judgement judgement;

    GoodEnd(Walk walk, Judgement judgement) {
        this.walk = walk;
        this.judgement = judgement;
    }

    String body() {
        judgement.good = goodEnd();
        judgement.frames = new ArrayList<>();
        for (Frame frame : walk.frames) {
            if (isBeforeGood(frame)) {
                judgement.frames.add(frame);
                judgement.lowWater = frame.lowWater != null && frame.isUnderstood ? frame.lowWater
                        : judgement.lowWater;
            }
        }
        if (isDamaged()) {
            return "bad";
        }
        if (judgement.frames.isEmpty()) {
            return "empty";
        }
        boolean isCut = judgement.frames.size() < walk.frames.size();
        return isCut || hasHarmlessBadRange() ? "torn" : "whole";
    }

    private boolean isVouched(long offset) {
        return Unsigned.less(offset, judgement.vouched);
    }

    private boolean isBeforeGood(Frame frame) {
        return Unsigned.less(frame.offset, judgement.good);
    }

    /** The lowest start of what is torn, or null. */
    private Long firstTorn() {
        Long first = null;
        for (BadRange range : walk.badRanges) {
            if (!range.isFrame() && !isVouched(range.start()) && (first == null || range.start() < first)) {
                first = range.start();
            }
        }
        for (Frame frame : walk.frames) {
            if (frame.hasBadPayload && !isVouched(frame.offset) && (first == null || frame.offset < first)) {
                first = frame.offset;
            }
        }
        return first;
    }

    private long goodEnd() {
        Long first = firstTorn();
        Long good = null;
        for (Frame frame : walk.frames) {
            if (first == null || frame.offset < first) {
                good = DirectoryReading.higher(good, frame.end());
            }
        }
        for (BadRange range : walk.badRanges) {
            if (isVouched(range.start())) {
                good = DirectoryReading.higher(good, range.end());
            }
        }
        return good != null ? good : first != null ? first : walk.last();
    }

    private boolean isDamaged() {
        return walk.badRanges.stream().anyMatch(range -> isVouched(range.start()))
                || judgement.frames.stream().anyMatch(frame -> !frame.isUnderstood || frame.hasBadPayload);
    }

    /** A bad range that is not damaged; it is asked only if nothing is damaged. */
    private boolean hasHarmlessBadRange() {
        return !walk.badRanges.isEmpty();
    }
}

/** Prints what was read of a directory as one line of JSON. */
final class Report {
    private final PrintStream out;
    private final String directory;
    private final DirectoryReading reading;
    private final TreeMap<Long, String> undelivered = Unsigned.map();
    /** Key to XXH3 of its last value; no entry for a value that is lost. */
    private final TreeMap<String, Long> keys = new TreeMap<>();
    private Long nextMessage;
    private String separator = "";

    Report(PrintStream out, String directory, DirectoryReading reading) {
        this.out = out;
        this.directory = directory;
        this.reading = reading;
    }

    void print() throws IOException {
        boolean isRefused = reading.refusal != null;
        out.print("{\"directory\": " + Json.text(directory) + ", \"refused\": " + Json.text(reading.refusal));
        out.print(", \"files\": [");
        printFiles();
        out.print("], \"operations\": [");
        nextMessage = isRefused ? null : reading.nextMessageAtLeast();
        separator = "";
        for (Judgement judgement : reading.judgements) {
            judgement.tell(this::take);
        }
        out.print("], \"undelivered\": [");
        printUndelivered();
        out.print("], \"keys\": {");
        printKeys();
        out.println("}, \"next_message_at_least\": "
                + (nextMessage == null ? "null" : Unsigned.text(nextMessage)) + "}");
    }

    private void printFiles() {
        for (Judgement judgement : reading.judgements) {
            out.print(separator + "{\"sequence\": " + Unsigned.text(judgement.sequence)
                    + ", \"verdict\": " + Json.text(judgement.row.verdict())
                    + ", \"row\": " + Json.text(judgement.row.name())
                    + ", \"good_end\": " + Unsigned.text(judgement.goodEnd()) + "}");
            separator = ", ";
        }
    }

    private void take(Operation operation) {
        out.print(separator);
        out.print(Json.operation(operation));
        separator = ", ";
        if (operation.number != null) {
            nextMessage = DirectoryReading.higher(nextMessage, operation.number + 1);
        }
        if (operation.isVouched) {
            apply(operation);
        }
    }

    /** Reading, "What is undelivered". */
    private void apply(Operation operation) {
        switch (operation.kind) {
            case Kind.ADD -> undelivered.putIfAbsent(operation.number, operation.name);
            case Kind.DELIVER, Kind.DELETE -> {
                if (operation.number != null) {
                    undelivered.remove(operation.number);
                }
            }
            case Kind.PUT -> takeValue(operation);
            default -> keys.remove(operation.name);
        }
    }

    /** A value that is lost leaves the key without one, and never with the one before. */
    private void takeValue(Operation operation) {
        if (operation.value == null) {
            keys.remove(operation.name);
        } else {
            keys.put(operation.name, operation.value);
        }
    }

    private void printUndelivered() {
        separator = "";
        undelivered.forEach((number, queue) -> {
            out.print(separator + "[" + Unsigned.text(number) + ", " + Json.text(queue) + "]");
            separator = ", ";
        });
    }

    private void printKeys() {
        separator = "";
        keys.forEach((key, value) -> {
            if (!key.startsWith("\0")) {
                out.print(separator + Json.text(key) + ": " + Json.hash(value));
                separator = ", ";
            }
        });
    }
}

/** Writes JSON. */
final class Json {
    private Json() {
    }

    static String text(String text) {
        if (text == null) {
            return "null";
        }
        StringBuilder json = new StringBuilder("\"");
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (c == '"' || c == '\\') {
                json.append('\\').append(c);
            } else if (c < ' ' || c == 0x7f) {
                json.append(String.format("\\u%04x", (int) c));
            } else {
                json.append(c);
            }
        }
        return json.append('"').toString();
    }

    static String hash(Long hash) {
        return hash == null ? "null" : "\"" + Text.hex(hash) + "\"";
    }

    static String operation(Operation operation) {
        StringBuilder json = new StringBuilder(256);
        json.append("{\"sequence\": ").append(Unsigned.text(operation.sequence))
                .append(", \"offset\": ").append(Unsigned.text(operation.offset))
                .append(", \"commit\": ").append(Unsigned.text(operation.commit))
                .append(", \"kind\": \"").append(Kind.name(operation.kind))
                .append("\", \"number\": ").append(operation.number == null ? null : Unsigned.text(operation.number))
                .append(", \"name\": ").append(text(operation.name))
                .append(", \"producer\": ").append(text(operation.producer))
                .append(", \"time\": ").append(operation.time)
                .append(", \"first_time\": ").append(operation.firstTime)
                .append(", \"moved\": ").append(operation.isMoved)
                .append(", \"vouched\": ").append(operation.isVouched)
                .append(", \"damaged\": ").append(operation.isDamaged)
                .append(", \"payload\": ").append(hash(operation.payload))
                .append(", \"properties\": ").append(properties(operation.properties));
        terms(json, operation);
        return json.append('}').toString();
    }

    /** Terms are there only where the message has them. */
    private static void terms(StringBuilder json, Operation operation) {
        if (operation.due != null) {
            json.append(", \"due\": ").append(operation.due);
        }
        if (operation.expiry != null) {
            json.append(", \"expiry\": ").append(operation.expiry);
        }
        if (operation.attempts != null) {
            json.append(", \"attempts\": ").append(Unsigned.text(operation.attempts));
        }
        if (operation.group != null) {
            json.append(", \"group\": ").append(text(operation.group));
        }
    }

    private static String properties(Map<String, String> properties) {
        if (properties == null) {
            return "null";
        }
        StringBuilder json = new StringBuilder("{");
        properties.forEach((key, value) -> json.append(json.length() > 1 ? ", " : "")
                .append(text(key)).append(": ").append(text(value)));
        return json.append('}').toString();
    }
}

/** Checks this program against what the pages say. */
final class SelfTest {
    private SelfTest() {
    }

    static void run() throws IOException {
        checkVectors();
        checkPieces();
        checkSet();
        checkRows();
        checkOrder();
        System.out.println("self test: all is well");
    }

    private static void check(Object found, Object expected, String what) {
        if (!expected.equals(found)) {
            throw new AssertionError(what + ": " + found + " instead of " + expected);
        }
    }

    private static byte[] ascending(int size) {
        byte[] bytes = new byte[size];
        for (int i = 0; i < size; i++) {
            bytes[i] = (byte) i;
        }
        return bytes;
    }

    /** The vectors of bytes.md. */
    private static void checkVectors() {
        long seed = 0x0123456789abcdefL;
        check(Text.hex(Xxh3.of(new byte[0])), "2d06800538d394c2", "XXH3 of nothing");
        check(Text.hex(Xxh3.of("abc".getBytes(StandardCharsets.US_ASCII))), "78af5f94892f3950", "XXH3 of abc");
        check(Text.hex(Xxh3.of(ascending(48), 0, 48, seed)), "a69a3864b46366b1", "XXH3 of 48 bytes");
        check(Text.hex(Xxh3.of(ascending(256), 0, 256, seed)), "475a0bae01c2895c", "XXH3 of 256 bytes");
        byte[] chain = Little.hex("3a139a665cd42f14" + "112a439895a02e8f");
        check(Text.hex(Xxh3.of(chain)), "cf98dab2730c837a", "the chain of the example");
        check(Text.hex(Xxh3.of("hello".getBytes(StandardCharsets.US_ASCII))), "9555e8555c62dcfd", "XXH3 of hello");
    }

    /** A file is hashed in pieces; the result is that of one piece. */
    private static void checkPieces() throws IOException {
        Path path = Files.createTempFile("reader", ".data");
        try {
            byte[] bytes = ascending((1 << 21) + 77);
            Files.write(path, bytes);
            try (DataFile file = new DataFile(1, path, Long.MAX_VALUE)) {
                for (int size : new int[] {0, 1, 240, 241, 1024, 1025, 1 << 20, (1 << 20) + 1, 1 << 21, bytes.length}) {
                    check(file.hash(0, size, 7), Xxh3.of(bytes, 0, size, 7), "XXH3 of a file of " + size);
                }
            }
        } finally {
            Files.delete(path);
        }
    }

    /** The example of bytes.md, "Records". */
    private static void checkSet() {
        try {
            NumberSet set = NumberSet.decode(Little.hex("030101a40201"), 0, 6, 1000, 5);
            StringBuilder text = new StringBuilder();
            set.runs().forEach(run -> text.append(run[0]).append('-').append(run[1]).append(' '));
            check(text.toString(), "1000-1002 1004-1004 1297-1297 ", "the coded set");
        } catch (NotUnderstood e) {
            throw new AssertionError("the coded set", e);
        }
    }

    private static void checkRows() {
        check(Row.of("good", "whole", "good", "yes").name(), "sealed", "a row");
        check(Row.of("half", "torn", "absent", "no").name(), "torn", "a row");
        check(Row.of("rotted", "empty", "absent", "no").name(), "damaged header", "a row");
    }

    /** Reading, appendix, "frame commit": which numbers are right, from frame to frame. */
    private static void checkOrder() {
        FrameOrder order = new FrameOrder(null, -1);
        check(takes(order, 40), true, "any first number without a header");
        check(takes(order, 41), true, "1 more");
        check(takes(order, 43), false, "2 more");
        check(takes(order, 43), true, "a frame with a wrong number counts as one");
        check(takes(order, 50), false, "7 more");
        check(takes(order, 51), true, "1 more than a wrong number");
        order.passBadRange(2 * Frame.HEAD + 8);
        check(takes(order, 54), true, "behind a bad range in which 2 frames had room");
        order.passBadRange(2 * Frame.HEAD + 8);
        check(takes(order, 58), false, "behind a bad range in which 3 frames had no room");
    }

    private static boolean takes(FrameOrder order, long commit) {
        byte[] head = new byte[Frame.HEAD];
        Little.put64(head, 16, commit);
        try {
            order.takeCommit(new Frame(DataFile.FIRST_FRAME, head));
            return true;
        } catch (NotUnderstood e) {
            return false;
        }
    }
}
