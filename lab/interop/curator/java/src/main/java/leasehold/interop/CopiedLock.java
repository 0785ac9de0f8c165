package leasehold.interop;

import java.util.Collections;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;

/**
 * {@link TutorialLock} before it was mended: the lock as tutorials have it and people copy it. It
 * looks at the line once, prints what goes wrong, and takes every end of the one before it for its
 * turn. So it returns without the lock when that one gave up, or was gone before it was watched.
 *
 * <p>A test can hold it up between its list and its watch, where a slow client is anyway.
 */
final class CopiedLock implements InterProcessLock {
    private static final String PREFIX = "client";

    final Semaphore listed = new Semaphore(0);
    final Semaphore mayWatch = new Semaphore(0);

    private final String path;
    private final ZooKeeper zookeeper;
    private volatile String node;

    CopiedLock(String servers, int session, String path) throws Exception {
        this.path = path;
        CountDownLatch connected = new CountDownLatch(1);
        zookeeper = new ZooKeeper(servers, session, event -> connected.countDown());
        connected.await();
    }

    @Override
    public void acquire() throws Exception {
        try {
            zookeeper.create(path, null, ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        } catch (KeeperException.NodeExistsException known) {
            // somebody else was first
        }
        try {
            node = zookeeper.create(
                    path + "/" + PREFIX, null, ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL_SEQUENTIAL);
            List<String> children = zookeeper.getChildren(path, false);
            Collections.sort(children);
            int place = children.indexOf(node.substring(path.length() + 1));
            if (place == 0) {
                return;
            }
            listed.release();
            mayWatch.acquire();
            CountDownLatch gone = new CountDownLatch(1);
            zookeeper.getData(path + "/" + children.get(place - 1), event -> gone.countDown(), null);
            gone.await();
        } catch (KeeperException e) {
            e.printStackTrace();
        }
    }

    @Override
    public boolean acquire(long time, TimeUnit unit) {
        throw new UnsupportedOperationException("it has no bound");
    }

    @Override
    public void release() throws Exception {
        String held = node;
        node = null;
        zookeeper.delete(held, -1);
    }

    @Override
    public boolean isAcquiredInThisProcess() {
        return node != null;
    }
}
