import java.lang.reflect.Field;
import java.util.concurrent.ThreadLocalRandom;
import java.util.function.Supplier;
import site.ycsb.Utils;
import site.ycsb.generator.CounterGenerator;
import site.ycsb.generator.ExponentialGenerator;
import site.ycsb.generator.HotspotIntegerGenerator;
import site.ycsb.generator.ScrambledZipfianGenerator;
import site.ycsb.generator.SkewedLatestGenerator;
import site.ycsb.generator.ZipfianGenerator;

/**
 * Prints what the generators of YCSB's own core draw, one draw a line: name, argument, result.
 *
 * <p>Most arguments are the bits of the random number that the draw used: the thread's random state is set to the same seed
 * twice, once to see the number and once to draw with it. A draw that uses several has the argument 0.
 */
final class YcsbOracle {
  private static final int DRAWS = 100_000;
  private static final StringBuilder OUT = new StringBuilder();

  public static void main(String[] args) throws ReflectiveOperationException {
    for (long number = 0; number < DRAWS; number++) {
      line("hash", number * 1_000_003, Utils.hash(number * 1_000_003));
    }
    drawEach("zipfian-1000", new ZipfianGenerator(1_000)::nextValue);
    drawEach("zipfian-123456", new ZipfianGenerator(123_456)::nextValue);
    drawEach("scrambled-1001", new ScrambledZipfianGenerator(0, 1_000)::nextValue);
    drawEach("scrambled-1000000", new ScrambledZipfianGenerator(1_000_000)::nextValue);
    CounterGenerator counter = new CounterGenerator(5_000);
    drawEach("latest-5000", new SkewedLatestGenerator(counter)::nextValue);
    ExponentialGenerator exponential = new ExponentialGenerator(95.0, 7_000 * 0.8571428571);
    drawEach("exponential-7000", () -> exponential.nextValue().longValue());
    HotspotIntegerGenerator hotspot = new HotspotIntegerGenerator(0, 999, 0.2, 0.8);
    for (int i = 0; i < DRAWS; i++) {
      line("hotspot-1000", 0, hotspot.nextValue());
    }
    System.out.print(OUT);
  }

  private static void drawEach(String name, Supplier<Long> generator) throws ReflectiveOperationException {
    Field seed = Thread.class.getDeclaredField("threadLocalRandomSeed");
    seed.setAccessible(true);
    ThreadLocalRandom random = ThreadLocalRandom.current();
    for (int i = 0; i < DRAWS; i++) {
      seed.setLong(Thread.currentThread(), i * 7_919L);
      double u = random.nextDouble();
      seed.setLong(Thread.currentThread(), i * 7_919L);
      line(name, Double.doubleToRawLongBits(u), generator.get());
    }
  }

  private static void line(String name, long argument, long result) {
    OUT.append(name).append(' ').append(argument).append(' ').append(result).append('\n');
  }
}
