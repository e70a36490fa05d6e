package org.trimtab.pages;

/** The page cannot be made, for a reason that whoever counts failures knows by its kind. */
public final class PageException extends Exception {
    private static final long serialVersionUID = 1L;

    /** The reason. */
    public final Kind kind;

    /** Says why, in words for people. */
    public PageException(Kind kind, String message) {
        super(message);
        this.kind = kind;
    }

    PageException(Kind kind, Exception cause) {
        super(words(cause), cause);
        this.kind = kind;
    }

    /** The message, and that of the first cause where it says something else: a pool or a container only wraps what the driver has said. */
    private static String words(Throwable error) {
        Throwable first = error;
        while (first.getCause() != null) {
            first = first.getCause();
        }
        String outer = String.valueOf(error.getMessage());
        String inner = first.getMessage();
        return inner == null || outer.contains(inner) ? outer : outer + ": " + inner;
    }
}
