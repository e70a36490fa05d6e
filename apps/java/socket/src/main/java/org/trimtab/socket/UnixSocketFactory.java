package org.trimtab.socket;

import java.io.IOException;
import java.net.InetAddress;
import java.net.Socket;
import javax.net.SocketFactory;

/**
 * Lets a driver of PostgreSQL or MariaDB talk to a server that listens on a unix socket only: the driver asks for a socket to some
 * host and port, and gets one to the path of the system property {@code trimtab.socket}.
 *
 * <p>Named in a driver's URL as {@code socketFactory=org.trimtab.socket.UnixSocketFactory}.
 */
public final class UnixSocketFactory extends SocketFactory {
    private static final String PATH = "trimtab.socket";

    @Override
    public Socket createSocket() throws IOException {
        String path = System.getProperty(PATH);
        if (path == null || path.isEmpty()) {
            throw new IOException("the system property " + PATH + " does not name a socket");
        }
        return new UnixSocket(path);
    }

    @Override
    public Socket createSocket(String host, int port) throws IOException {
        return connected();
    }

    @Override
    public Socket createSocket(String host, int port, InetAddress local, int localPort) throws IOException {
        return connected();
    }

    @Override
    public Socket createSocket(InetAddress host, int port) throws IOException {
        return connected();
    }

    @Override
    public Socket createSocket(InetAddress host, int port, InetAddress local, int localPort) throws IOException {
        return connected();
    }

    private Socket connected() throws IOException {
        Socket socket = createSocket();
        socket.connect(null);
        return socket;
    }
}
