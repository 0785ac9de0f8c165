package leasehold.interop;

import org.redisson.Redisson;
import org.redisson.config.Config;
import org.redisson.config.ReadMode;

/**
 * One Redisson client, driven by lines on standard input.
 *
 * <p>Arguments of the process: {@code single ADDRESS}, {@code cluster ADDRESS,ADDRESS} or {@code
 * sentinel:PRIMARY ADDRESS,ADDRESS}, then the lockWatchdogTimeout in milliseconds (0: Redisson's
 * default).
 */
public final class Main {
    private Main() {}

    public static void main(String[] args) throws Exception {
        Driver.serve(Redisson.class, () -> new Commands(Redisson.create(config(args))));
    }

    private static Config config(String[] args) {
        Config config = new Config();
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
        long watchdog = Long.parseLong(args[2]);
        if (watchdog > 0) {
            config.setLockWatchdogTimeout(watchdog);
        }
        return config;
    }
}
