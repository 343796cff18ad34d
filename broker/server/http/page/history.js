// What the console has seen since it was opened: totals as rates, and how much waited, for the last minutes.

const SAMPLES = 300; // ten minutes at a look every two seconds
const SERVICES = 500; // whose past is kept

/** Numbers over time. A total that runs back says that the broker was started anew: what was before is let go. */
export class Series {
  constructor(samples = SAMPLES) {
    this.samples = samples;
    this.times = [];
    this.values = new Map();
  }

  /** Note numbers by name, at a time in seconds. */
  add(time, numbers) {
    const last = this.times[this.times.length - 1];
    if (last !== undefined && time <= last) return;
    this.times.push(time);
    for (const [name, number] of Object.entries(numbers)) {
      if (!this.values.has(name)) this.values.set(name, new Array(this.times.length - 1).fill(null));
      this.values.get(name).push(number);
    }
    for (const line of this.values.values()) {
      if (line.length < this.times.length) line.push(null);
      if (line.length > this.samples) line.shift();
    }
    if (this.times.length > this.samples) this.times.shift();
  }

  /** Return the numbers of a name as [time, number]. */
  points(name) {
    const line = this.values.get(name) || [];
    return this.times.map((time, at) => [time, line[at] ?? null]);
  }

  /** Return how fast a total grows as [time, number a second]; null where that is not known. */
  rates(name) {
    const points = this.points(name);
    return points.map(([time, number], at) => {
      if (at === 0) return [time, null];
      const [before, less] = points[at - 1];
      if (number === null || less === null || number < less) return [time, null];
      return [time, (number - less) / (time - before)];
    });
  }

  /** Return the last known rate of a total, over the last few looks. */
  rate(name, looks = 3) {
    const points = this.points(name).slice(-1 - looks);
    if (points.length < 2) return null;
    const [first, last] = [points[0], points[points.length - 1]];
    if (first[1] === null || last[1] === null || last[1] < first[1]) return null;
    return (last[1] - first[1]) / (last[0] - first[0]);
  }
}

/** The past of each service. */
export class Past {
  constructor() {
    this.broker = new Series();
    this.services = new Map();
  }

  service(name) {
    if (!this.services.has(name)) {
      if (this.services.size >= SERVICES) this.services.delete(this.services.keys().next().value);
      this.services.set(name, new Series(60));
    }
    return this.services.get(name);
  }

  clear() {
    this.broker = new Series();
    this.services.clear();
  }
}
