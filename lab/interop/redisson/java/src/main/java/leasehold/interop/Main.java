package leasehold.interop;

import java.util.ArrayList;
import java.util.List;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;
import org.redisson.config.ReadMode;

/**
 * One Redisson client, driven by lines on standard input.
 *
 * <p>Arguments of the process: {@code single ADDRESS}, {@code cluster ADDRESS,ADDRESS} or {@code
 * sentinel:PRIMARY ADDRESS,ADDRESS}, then the lockWatchdogTimeout in milliseconds (0: Redisson's
 * default), then the independent masters of a RedissonRedLock, of which each has a client of its own.
 */
public final class Main {
    private static final int MASTER_TIMEOUT = 5000; // milliseconds

    private Main() {}

    public static void main(String[] args) throws Exception {
        Driver.serve(Redisson.class, () -> new Commands(Redisson.create(config(args)), masters(args)));
    }

    private static List<RedissonClient> masters(String[] args) {
        List<RedissonClient> masters = new ArrayList<>();
        for (int i = 3; i < args.length; i++) {
            Config config = watched(args);
            config.setThreads(2).setNettyThreads(2);
            // One that is away is given up soon: by default each call on it takes many seconds.
            config.useSingleServer()
                    .setAddress(args[i])
                    .setTimeout(MASTER_TIMEOUT)
                    .setConnectTimeout(MASTER_TIMEOUT)
                    .setRetryAttempts(0)
                    .setConnectionMinimumIdleSize(1);
            masters.add(Redisson.create(config));
        }
        return masters;
    }

    private static Config config(String[] args) {
        Config config = watched(args);
        if (args[0].equals("cluster")) {
            // By default replicas answer what only reads, and they may not know yet what was written.
            config.useClusterServers().setReadMode(ReadMode.MASTER).addNodeAddress(args[1].split(","));
        } else if (args[0].startsWith("sentinel:")) {
            config.useSentinelServers()
                    .setReadMode(ReadMode.MASTER)
                    .setMasterName(args[0].substring("sentinel:".length()))
                    .addSentinelAddress(args[1].split(","));
        } else {
            config.useSingleServer().setAddress(args[1]);
        }
        return config;
    }

    private static Config watched(String[] args) {
        Config config = new Config();
        long watchdog = Long.parseLong(args[2]);
        if (watchdog > 0) {
            config.setLockWatchdogTimeout(watchdog);
        }
        return config;
    }
}
