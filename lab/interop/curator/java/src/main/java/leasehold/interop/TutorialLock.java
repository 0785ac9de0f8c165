package leasehold.interop;

import java.util.Collections;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;

/**
 * The lock that tutorials have people write by hand, on ZooKeeper's own client: a node {@code
 * client<10 digits>} below the path, which holds when it is the first, and until then watches the
 * one before it. It knows neither re-entry nor owners.
 */
final class TutorialLock implements InterProcessLock {
    private static final String PREFIX = "client";

    private final String servers;
    private final int session;
    private final String path;
    private ZooKeeper zookeeper;
    private String node; // of the holder

    TutorialLock(String servers, int session, String path) {
        this.servers = servers;
        this.session = session;
        this.path = path;
    }

    @Override
    public void acquire() throws Exception {
        acquire(Long.MAX_VALUE, TimeUnit.NANOSECONDS);
    }

    @Override
    public boolean acquire(long time, TimeUnit unit) throws Exception {
        long began = System.nanoTime();
        ZooKeeper client = connected();
        try {
            client.create(path, null, ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        } catch (KeeperException.NodeExistsException known) {
            // somebody else was first
        }
        String created =
                client.create(path + "/" + PREFIX, null, ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL_SEQUENTIAL);
        String own = created.substring(path.length() + 1);
        while (true) {
            List<String> children = client.getChildren(path, false);
            Collections.sort(children);
            int place = children.indexOf(own);
            if (place == 0) {
                node = created;
                return true;
            }
            CountDownLatch gone = new CountDownLatch(1);
            boolean there = client.exists(path + "/" + children.get(place - 1), event -> gone.countDown()) != null;
            long left = unit.toNanos(time) - (System.nanoTime() - began);
            if (there && !gone.await(left, TimeUnit.NANOSECONDS)) {
                client.delete(created, -1);
                return false;
            }
        }
    }

    @Override
    public void release() throws Exception {
        String held = node;
        node = null;
        connected().delete(held, -1);
    }

    @Override
    public boolean isAcquiredInThisProcess() {
        return node != null;
    }

    private synchronized ZooKeeper connected() throws Exception {
        if (zookeeper == null) {
            CountDownLatch connected = new CountDownLatch(1);
            zookeeper = new ZooKeeper(servers, session, event -> connected.countDown());
            connected.await();
        }
        return zookeeper;
    }
}
