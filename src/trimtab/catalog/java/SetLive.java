import com.sun.tools.attach.VirtualMachine;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.TreeSet;
import javax.management.Attribute;
import javax.management.MBeanAttributeInfo;
import javax.management.MBeanOperationInfo;
import javax.management.MBeanParameterInfo;
import javax.management.MBeanServerConnection;
import javax.management.ObjectName;
import javax.management.remote.JMXConnector;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;

/**
 * Sets attributes of the management beans of a Java program that runs on this machine, or calls their operations. Arguments: its
 * process number, then pairs of BEAN and NAME=VALUE or NAME(VALUE,VALUE); none only shows that the program lets us in. Ends with
 * exit code 1 if one is refused, and says why.
 */
public final class SetLive {
    private SetLive() {}

    public static void main(String[] words) throws Exception {
        VirtualMachine program = VirtualMachine.attach(words[0]);
        String address;
        try {
            address = program.startLocalManagementAgent();
        } finally {
            program.detach();
        }
        List<String[]> changes = new ArrayList<>();
        for (int i = 1; i + 1 < words.length; i += 2) {
            changes.add(new String[] {words[i], words[i + 1]});
        }
        try (JMXConnector connector = JMXConnectorFactory.connect(new JMXServiceURL(address))) {
            MBeanServerConnection beans = connector.getMBeanServerConnection();
            // A least value is refused while it is above the largest: what is refused is tried again after the others.
            List<String[]> refused = new ArrayList<>();
            for (String[] each : changes) {
                if (why(beans, each) != null) {
                    refused.add(each);
                }
            }
            for (String[] each : refused) {
                Throwable why = why(beans, each);
                if (why != null) {
                    System.err.println(each[0] + " " + each[1] + ": " + why);
                    System.exit(1);
                }
            }
        }
    }

    /** Makes a change; why it was refused, or null. */
    private static Throwable why(MBeanServerConnection beans, String[] change) {
        try {
            int bracket = change[1].indexOf('(');
            int equals = change[1].indexOf('=');
            boolean isCall = bracket >= 0 && (equals < 0 || bracket < equals);
            Set<ObjectName> found = named(beans, new ObjectName(change[0]));
            if (!isCall) {
                requireAlike(beans, found, change[1].substring(0, equals));
            }
            for (ObjectName bean : found) {
                if (isCall) {
                    String values = change[1].substring(bracket + 1, change[1].length() - 1);
                    call(beans, bean, change[1].substring(0, bracket), values.split(",", -1));
                } else {
                    set(beans, bean, change[1].substring(0, equals), change[1].substring(equals + 1));
                }
            }
            return null;
        } catch (Exception error) {
            Throwable cause = error;
            while (cause.getCause() != null) {
                cause = cause.getCause();
            }
            return cause;
        }
    }

    /** The bean, or all that a pattern fits: of one resource each context of a server may have its own, but of one name. */
    private static Set<ObjectName> named(MBeanServerConnection beans, ObjectName bean) throws Exception {
        if (!bean.isPattern()) {
            return Set.of(bean);
        }
        Set<ObjectName> found = new TreeSet<>(beans.queryNames(bean, null));
        long names = found.stream().map(each -> Objects.toString(each.getKeyProperty("name"))).distinct().count();
        if (names != 1) {
            throw new IllegalArgumentException(names == 0 ? "there is no such bean" : "there are several such beans: " + found);
        }
        return found;
    }

    /** Beans that have not the same value now could not all get back what they had. */
    private static void requireAlike(MBeanServerConnection beans, Set<ObjectName> found, String name) throws Exception {
        Set<String> values = new TreeSet<>();
        for (ObjectName bean : found.size() > 1 ? found : Set.<ObjectName>of()) {
            values.add(Objects.toString(beans.getAttribute(bean, name)));
        }
        if (values.size() > 1) {
            throw new IllegalArgumentException("its beans have several values: " + values);
        }
    }

    private static void set(MBeanServerConnection beans, ObjectName bean, String name, String text) throws Exception {
        for (MBeanAttributeInfo attribute : beans.getMBeanInfo(bean).getAttributes()) {
            if (attribute.getName().equals(name)) {
                Object value = parsed(attribute.getType(), text);
                beans.setAttribute(bean, new Attribute(name, value));
                Object used = attribute.isReadable() ? beans.getAttribute(bean, name) : value;
                if (!value.toString().equals(Objects.toString(used))) {
                    throw new IllegalArgumentException("its value is " + used);
                }
                return;
            }
        }
        throw new IllegalArgumentException("there is no such attribute");
    }

    private static void call(MBeanServerConnection beans, ObjectName bean, String name, String[] texts) throws Exception {
        for (MBeanOperationInfo operation : beans.getMBeanInfo(bean).getOperations()) {
            MBeanParameterInfo[] parameters = operation.getSignature();
            if (operation.getName().equals(name) && parameters.length == texts.length) {
                Object[] values = new Object[texts.length];
                String[] types = new String[texts.length];
                for (int i = 0; i < texts.length; i++) {
                    types[i] = parameters[i].getType();
                    values[i] = parsed(types[i], texts[i].trim());
                }
                beans.invoke(bean, name, values, types);
                return;
            }
        }
        throw new IllegalArgumentException("there is no such operation");
    }

    private static Object parsed(String type, String text) {
        switch (type) {
            case "int":
            case "java.lang.Integer":
                return Integer.valueOf(text);
            case "long":
            case "java.lang.Long":
                return Long.valueOf(text);
            case "double":
            case "java.lang.Double":
                return Double.valueOf(text);
            case "boolean":
            case "java.lang.Boolean":
                if (!text.equals("true") && !text.equals("false")) {
                    throw new IllegalArgumentException("it is true or false");
                }
                return Boolean.valueOf(text);
            case "[Ljava.lang.String;":
                return text.isEmpty() ? new String[0] : text.split(" ");
            default:
                return text;
        }
    }
}
