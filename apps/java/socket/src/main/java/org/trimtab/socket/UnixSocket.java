package org.trimtab.socket;

import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.Socket;
import java.net.SocketAddress;
import java.net.SocketException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;

/** A stream over a unix socket with the face of a TCP one. Options of TCP have no effect; time-outs of reads are not kept. */
final class UnixSocket extends Socket {
    private final UnixDomainSocketAddress address;
    private final SocketChannel channel;
    private int timeoutMs;

    UnixSocket(String path) throws IOException {
        address = UnixDomainSocketAddress.of(path);
        channel = SocketChannel.open(StandardProtocolFamily.UNIX);
    }

    @Override
    public void connect(SocketAddress ignored) throws IOException {
        channel.connect(address);
    }

    @Override
    public void connect(SocketAddress ignored, int timeoutMs) throws IOException {
        channel.connect(address);
    }

    @Override
    public InputStream getInputStream() {
        return new InputStream() {
            @Override
            public int read() throws IOException {
                byte[] one = new byte[1];
                return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
            }

            @Override
            public int read(byte[] bytes, int offset, int length) throws IOException {
                return length == 0 ? 0 : channel.read(ByteBuffer.wrap(bytes, offset, length));
            }

            @Override
            public void close() throws IOException {
                channel.close();
            }
        };
    }

    @Override
    public OutputStream getOutputStream() {
        return new OutputStream() {
            @Override
            public void write(int one) throws IOException {
                write(new byte[] {(byte) one}, 0, 1);
            }

            @Override
            public void write(byte[] bytes, int offset, int length) throws IOException {
                ByteBuffer buffer = ByteBuffer.wrap(bytes, offset, length);
                while (buffer.hasRemaining()) {
                    if (channel.write(buffer) < 0) {
                        throw new EOFException("the server has closed the socket");
                    }
                }
            }

            @Override
            public void close() throws IOException {
                channel.close();
            }
        };
    }

    @Override
    public void close() throws IOException {
        channel.close();
    }

    @Override
    public boolean isConnected() {
        return channel.isConnected();
    }

    @Override
    public boolean isClosed() {
        return !channel.isOpen();
    }

    @Override
    public boolean isBound() {
        return true;
    }

    @Override
    public void shutdownInput() throws IOException {
        channel.shutdownInput();
    }

    @Override
    public void shutdownOutput() throws IOException {
        channel.shutdownOutput();
    }

    @Override
    public InetAddress getInetAddress() {
        return InetAddress.getLoopbackAddress();
    }

    @Override
    public SocketAddress getRemoteSocketAddress() {
        return address;
    }

    @Override
    public void setTcpNoDelay(boolean on) {
        // Sockets of this kind never delay.
    }

    @Override
    public boolean getTcpNoDelay() {
        return true;
    }

    @Override
    public void setKeepAlive(boolean on) {
        // The kernel knows at once when the other end is gone.
    }

    @Override
    public boolean getKeepAlive() {
        return false;
    }

    @Override
    public void setSoTimeout(int timeoutMs) throws SocketException {
        this.timeoutMs = timeoutMs;
    }

    @Override
    public int getSoTimeout() throws SocketException {
        return timeoutMs;
    }

    @Override
    public void setSoLinger(boolean on, int linger) {
        // As it is.
    }

    @Override
    public void setTrafficClass(int trafficClass) {
        // As it is.
    }

    @Override
    public void setReceiveBufferSize(int size) {
        // As the kernel has it.
    }

    @Override
    public int getReceiveBufferSize() {
        return 1 << 16;
    }

    @Override
    public void setSendBufferSize(int size) {
        // As the kernel has it.
    }

    @Override
    public int getSendBufferSize() {
        return 1 << 16;
    }
}
