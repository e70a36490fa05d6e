package org.trimtab.pages;

import jakarta.servlet.http.HttpServletRequest;

/** What a browser asks for: the steps of a path, and the fields of a form. */
public final class Question {
    private final HttpServletRequest request;
    private final String[] steps;

    Question(HttpServletRequest request) {
        this.request = request;
        String path = request.getPathInfo();
        steps = path == null || path.length() < 2 ? new String[0] : path.substring(1).split("/");
    }

    /** Whether it is a POST. */
    public boolean isPost() {
        return "POST".equals(request.getMethod());
    }

    /** The step of the path behind the page's own, from 0. */
    public String step(int index) throws PageException {
        if (index >= steps.length || steps[index].isEmpty()) {
            throw new PageException(Kind.REQUEST, "the path is too short");
        }
        return steps[index];
    }

    /** The same as a number that is not negative. */
    public int number(int index) throws PageException {
        return parsed(step(index), "path");
    }

    /** Whether the form, or the query, has a field of that name that is not empty. */
    public boolean has(String name) {
        String value = request.getParameter(name);
        return value != null && !value.isEmpty();
    }

    /** The names of all fields. */
    public Iterable<String> names() {
        return request.getParameterMap().keySet();
    }

    /** A field of the form. */
    public String field(String name, int longest) throws PageException {
        String value = request.getParameter(name);
        if (value == null || value.isEmpty() || value.length() > longest) {
            throw new PageException(Kind.REQUEST, name + " is missing or too long");
        }
        return value;
    }

    /** A field that is a number, and not negative. */
    public int number(String name) throws PageException {
        return parsed(field(name, 12), name);
    }

    /** The number in the name of a field that begins with {@code prefix}; it is not negative. */
    public static int numberAfter(String prefix, String name) throws PageException {
        return parsed(name.substring(prefix.length()), name);
    }

    /** A field that is a whole number of either sign. */
    public int signed(String name) throws PageException {
        try {
            return Integer.parseInt(field(name, 12));
        } catch (NumberFormatException error) {
            throw new PageException(Kind.REQUEST, name + " is not a number");
        }
    }

    /** A field that is an amount of money, and not negative. */
    public double amount(String name) throws PageException {
        try {
            double value = Double.parseDouble(field(name, 20));
            if (value >= 0 && value < 1e12) {
                return value;
            }
        } catch (NumberFormatException error) {
            // said below
        }
        throw new PageException(Kind.REQUEST, name + " is not an amount");
    }

    private static int parsed(String text, String name) throws PageException {
        try {
            int value = Integer.parseInt(text);
            if (value >= 0) {
                return value;
            }
        } catch (NumberFormatException error) {
            // said below
        }
        throw new PageException(Kind.REQUEST, name + " is not a number");
    }
}
