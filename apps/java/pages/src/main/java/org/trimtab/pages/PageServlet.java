package org.trimtab.pages;

import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.sql.SQLException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

/** A page: one state of an emulated browser. Failures become pages with their kind and status; the log gets one line a second at most. */
public abstract class PageServlet extends HttpServlet {
    private static final long serialVersionUID = 1L;
    private static final long LOG_EVERY_NS = TimeUnit.SECONDS.toNanos(1);
    private static final AtomicLong LOGGED = new AtomicLong();

    private final String application;
    private final String state;
    private final boolean usesDatabase;

    /** A page that reads the database. */
    protected PageServlet(String application, String state) {
        this(application, state, true);
    }

    /** Any page. */
    protected PageServlet(String application, String state, boolean usesDatabase) {
        this.application = application;
        this.state = state;
        this.usesDatabase = usesDatabase;
    }

    /**
     * Writes the page.
     *
     * @param database null for a page that uses none
     */
    protected abstract void answer(Question question, Database database, Page page) throws PageException, SQLException;

    /** What every page of the application begins with. */
    protected abstract void begin(Page page);

    @Override
    protected final void service(HttpServletRequest request, HttpServletResponse response) throws IOException {
        request.setCharacterEncoding("UTF-8");
        int status = 200;
        byte[] bytes;
        try {
            bytes = made(new Question(request));
        } catch (PageException error) {
            status = error.kind.status;
            bytes = failed(error.kind, error);
        } catch (RuntimeException error) {
            status = Kind.BUG.status;
            bytes = failed(Kind.BUG, error);
        }
        response.setStatus(status);
        response.setContentType("text/html;charset=utf-8");
        response.setContentLength(bytes.length);
        response.getOutputStream().write(bytes);
    }

    private byte[] made(Question question) throws PageException {
        Page page = new Page(application, state);
        begin(page);
        try {
            if (usesDatabase) {
                try (Database database = Site.connect()) {
                    answer(question, database, page);
                }
            } else {
                answer(question, null, page);
            }
        } catch (SQLException error) {
            throw new PageException(Failures.ofStatement(error), error);
        }
        return page.bytes();
    }

    private byte[] failed(Kind kind, Exception error) {
        long now = System.nanoTime();
        long last = LOGGED.get();
        boolean isNews = kind.status >= 500 && (last == 0 || now - last > LOG_EVERY_NS);
        if (isNews && LOGGED.compareAndSet(last, now)) {
            getServletContext().log("page " + state + " failed: kind=" + kind.word(), error);
        }
        String words = kind == Kind.BUG || error.getMessage() == null ? error.toString() : error.getMessage();
        return Page.failed(application, state, kind, words);
    }
}
