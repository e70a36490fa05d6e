package org.trimtab.pages;

import java.lang.management.ManagementFactory;
import java.sql.SQLException;
import java.sql.Timestamp;
import java.time.LocalDateTime;
import java.util.HashSet;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import javax.management.MalformedObjectNameException;
import javax.management.ObjectName;
import javax.naming.InitialContext;
import javax.naming.NamingException;
import javax.sql.DataSource;

/** What all pages of an application share: its pool of connections, and its clock. */
public final class Site {
    /** When the data was made, as far as it knows; the loader has the same moment. */
    private static final LocalDateTime DATA_MADE = LocalDateTime.of(2026, 1, 1, 0, 0);

    private static final long CLOCK_NS = TimeUnit.HOURS.toNanos(1);
    private static final String POOL = "java:comp/env/jdbc/site";
    private static final String BEANS_OF_POOLS = "*:type=DataSource,*";
    private static final String REGISTRY = "org.apache.tomcat.util.modeler.Registry";

    private static volatile long started = System.nanoTime();
    private static volatile DataSource pool;
    private static volatile int generation;

    private Site() {}

    /**
     * The time of the site. It begins when the data was made, each time that the application starts or its data are renewed, and goes round
     * within an hour: so auctions never run out while somebody measures, and each run finds the same.
     */
    public static Timestamp now() {
        long passed = (System.nanoTime() - started) % CLOCK_NS;
        return Timestamp.valueOf(DATA_MADE.plusNanos(passed / 1_000_000 * 1_000_000));
    }

    /** A moment of the site that many days away from now. */
    public static Timestamp inDays(int days) {
        return Timestamp.valueOf(now().toLocalDateTime().plusDays(days));
    }

    /** Counts how often the data was replaced: what is known of the data holds as long as this stays the same. */
    public static int generation() {
        return generation;
    }

    /** A connection of the pool. */
    static Database connect() throws PageException {
        try {
            return new Database(pool().getConnection());
        } catch (SQLException error) {
            throw new PageException(Failures.ofConnecting(error), error);
        }
    }

    private static DataSource pool() throws PageException {
        if (pool == null) {
            try {
                pool = (DataSource) new InitialContext().lookup(POOL);
            } catch (NamingException error) {
                throw new PageException(Kind.REFUSED, error);
            }
        }
        return pool;
    }

    /** Closes the pool's connections, which may be to data that is no longer there, and sets the clock back. */
    static void renew() throws PageException {
        DataSource held = pool();
        try {
            Set<ObjectName> lost = beansOfPools();
            // DBCP's own; its class is the container's.
            held.getClass().getMethod("restart").invoke(held);
            lost.removeAll(beansOfPools());
            for (ObjectName bean : lost) {
                register(held, bean);
            }
        } catch (ReflectiveOperationException | MalformedObjectNameException error) {
            throw new PageException(Kind.BUG, error);
        }
        started = System.nanoTime();
        synchronized (Site.class) {
            generation++;
        }
    }

    private static Set<ObjectName> beansOfPools() throws MalformedObjectNameException {
        return new HashSet<>(ManagementFactory.getPlatformMBeanServer().queryNames(new ObjectName(BEANS_OF_POOLS), null));
    }

    /** Gives the pool its bean again, as Tomcat did: a restart takes it away, and so the way to change the pool's settings. */
    private static void register(DataSource held, ObjectName bean) throws ReflectiveOperationException {
        Class<?> kind = Class.forName(REGISTRY);
        Object registry = kind.getMethod("getRegistry", Object.class, Object.class).invoke(null, null, null);
        kind.getMethod("registerComponent", Object.class, ObjectName.class, String.class).invoke(registry, held, bean, null);
    }
}
