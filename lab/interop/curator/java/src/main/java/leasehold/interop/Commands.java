package leasehold.interop;

import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.framework.state.ConnectionState;

/** What can be asked of the client. Where a lock is meant, two arguments name it: KIND PATH. */
final class Commands implements Command {
    private final CuratorFramework client;
    private final String servers;
    private final int session;

    // A lock of Curator's knows its owners itself, so there is one object for each.
    private final Map<String, InterProcessLock> locks = new ConcurrentHashMap<>();
    private final Map<String, InterProcessReadWriteLock> readWriteLocks = new ConcurrentHashMap<>();
    private final Map<String, Semaphore> revocations = new ConcurrentHashMap<>();

    private final AtomicInteger losses = new AtomicInteger();
    private volatile boolean connected = true;

    Commands(CuratorFramework client, String servers, int session) {
        this.client = client;
        this.servers = servers;
        this.session = session;
        client.getConnectionStateListenable()
                .addListener(
                        (c, state) -> {
                            connected = state.isConnected();
                            if (state == ConnectionState.LOST) {
                                losses.incrementAndGet();
                            }
                        });
    }

    @Override
    public String run(Request r) throws Exception {
        String path = r.argument(1);
        InterProcessLock lock = lock(r.argument(0), path);
        switch (r.command()) {
            case "acquire": // [WAIT]
                if (r.has(2)) {
                    return Boolean.toString(lock.acquire(r.number(2), TimeUnit.MILLISECONDS));
                }
                lock.acquire();
                return "";
            case "release":
                lock.release();
                return "";
            case "isAcquiredInThisProcess":
                return Boolean.toString(lock.isAcquiredInThisProcess());
            case "isOwnedByCurrentThread":
                return Boolean.toString(((InterProcessMutex) lock).isOwnedByCurrentThread());
            case "getParticipantNodes": // their paths, in order
                return String.join(",", ((InterProcessMutex) lock).getParticipantNodes());
            case "connection": // what a listener has heard: how often LOST, and whether it is connected
                return losses + " " + connected;
            case "makeRevocable": // before it is acquired
                Semaphore asked = revoked(path);
                ((InterProcessMutex) lock).makeRevocable(who -> asked.release());
                return "";
            case "revoked": // returns when the holder was asked to let go
                revoked(path).acquire();
                return "";
            case "attemptRevoke": // NODE
                Revoker.attemptRevoke(client, r.argument(2));
                return "";
            case "listed": // returns when a copied lock has listed the line, and is held up
                ((CopiedLock) lock).listed.acquire();
                return "";
            case "watch": // lets it go on
                ((CopiedLock) lock).mayWatch.release();
                return "";
            case "add": // COUNTER WHICH TIMES
                return add(lock, r.argument(2), (int) r.number(3), r.number(4));
            case "pairs": // TIMES
                return Pairs.time(
                        (int) r.number(2),
                        () -> {
                            lock.acquire();
                            lock.release();
                        });
            default:
                throw new IllegalArgumentException("unknown command " + r.command());
        }
    }

    private Semaphore revoked(String path) {
        return revocations.computeIfAbsent(path, p -> new Semaphore(0));
    }

    private synchronized InterProcessLock lock(String kind, String path) throws Exception {
        String key = kind + " " + path;
        InterProcessLock lock = locks.get(key);
        if (lock == null) {
            lock = create(kind, path);
            locks.put(key, lock);
        }
        return lock;
    }

    private InterProcessLock create(String kind, String path) throws Exception {
        switch (kind) {
            case "mutex":
                return new InterProcessMutex(client, path);
            case "read":
                return readWrite(path).readLock();
            case "write":
                return readWrite(path).writeLock();
            case "semaphore":
                return new InterProcessSemaphoreMutex(client, path);
            case "tutorial":
                return new TutorialLock(servers, session, path);
            case "copied":
                return new CopiedLock(servers, session, path);
            default:
                throw new IllegalArgumentException("unknown kind of lock " + kind);
        }
    }

    private InterProcessReadWriteLock readWrite(String path) {
        return readWriteLocks.computeIfAbsent(path, p -> new InterProcessReadWriteLock(client, p));
    }

    /**
     * Reads the numbers in a node and writes them back with one of them one higher, TIMES times, each
     * under the lock and protected by nothing else.
     */
    private String add(InterProcessLock lock, String counter, int which, long times) throws Exception {
        for (long i = 0; i < times; i++) {
            lock.acquire();
            try {
                String text = new String(client.getData().forPath(counter), StandardCharsets.UTF_8);
                String[] numbers = text.split(" ");
                numbers[which] = Long.toString(Long.parseLong(numbers[which]) + 1);
                client.setData().forPath(counter, String.join(" ", numbers).getBytes(StandardCharsets.UTF_8));
            } finally {
                lock.release();
            }
        }
        return "";
    }
}
