package leasehold.interop;

import java.util.List;
import java.util.concurrent.TimeUnit;
import org.redisson.RedissonMultiLock;
import org.redisson.RedissonRedLock;
import org.redisson.api.RBucket;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;

/** What can be asked of the client. Where a lock is meant, two arguments name it: KIND NAME. */
final class Commands implements Command {
    private final RedissonClient client;
    private final List<RedissonClient> masters;

    Commands(RedissonClient client, List<RedissonClient> masters) {
        this.client = client;
        this.masters = masters;
    }

    @Override
    public String run(Request r) throws Exception {
        RLock lock = lock(r.argument(0), r.argument(1));
        switch (r.command()) {
            case "lock": // [LEASE]
                if (r.has(2)) {
                    lock.lock(r.number(2), TimeUnit.MILLISECONDS);
                } else {
                    lock.lock();
                }
                return "";
            case "lockSeconds": // LEASE
                lock.lock(r.number(2), TimeUnit.SECONDS);
                return "";
            case "lockInterruptibly": // [LEASE]
                if (r.has(2)) {
                    lock.lockInterruptibly(r.number(2), TimeUnit.MILLISECONDS);
                } else {
                    lock.lockInterruptibly();
                }
                return "";
            case "tryLock": // WAIT [LEASE]
                return Boolean.toString(
                        r.has(3)
                                ? lock.tryLock(r.number(2), r.number(3), TimeUnit.MILLISECONDS)
                                : lock.tryLock(r.number(2), TimeUnit.MILLISECONDS));
            case "unlock":
                lock.unlock();
                return "";
            case "forceUnlock":
                return Boolean.toString(lock.forceUnlock());
            case "isLocked":
                return Boolean.toString(lock.isLocked());
            case "isHeldByCurrentThread":
                return Boolean.toString(lock.isHeldByCurrentThread());
            case "getHoldCount":
                return Integer.toString(lock.getHoldCount());
            case "remainTimeToLive":
                return Long.toString(lock.remainTimeToLive());
            case "getToken":
                return lock.getClass().getMethod("getToken").invoke(lock).toString();
            case "add": // KEY TIMES
                return add(lock, r.argument(2), r.number(3));
            case "pairs": // TIMES
                return Pairs.time(
                        (int) r.number(2),
                        () -> {
                            lock.lock();
                            lock.unlock();
                        });
            default:
                throw new IllegalArgumentException("unknown command " + r.command());
        }
    }

    private RLock lock(String kind, String name) throws ReflectiveOperationException {
        switch (kind) {
            case "lock":
                return client.getLock(name);
            case "fair":
                return client.getFairLock(name);
            case "read":
                return client.getReadWriteLock(name).readLock();
            case "write":
                return client.getReadWriteLock(name).writeLock();
            case "red":
                return new RedissonRedLock(onMasters(name));
            case "multi":
                return new RedissonMultiLock(onMasters(name));
            case "fenced": // since 3.20.1, so it cannot be called by name in an older one
                return (RLock) RedissonClient.class.getMethod("getFencedLock", String.class).invoke(client, name);
            default:
                throw new IllegalArgumentException("unknown kind of lock " + kind);
        }
    }

    private RLock[] onMasters(String name) {
        return masters.stream().map(master -> master.getLock(name)).toArray(RLock[]::new);
    }

    /** Reads a number and writes it back one higher, TIMES times, each under the lock and by nothing else. */
    private String add(RLock lock, String key, long times) {
        RBucket<String> bucket = client.getBucket(key, StringCodec.INSTANCE);
        for (long i = 0; i < times; i++) {
            lock.lock();
            try {
                String before = bucket.get();
                bucket.set(Long.toString(before == null ? 1 : Long.parseLong(before) + 1));
            } finally {
                lock.unlock();
            }
        }
        return "";
    }
}
