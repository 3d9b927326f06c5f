import { tmpdir } from 'node:os'
import { z } from 'zod'
import { type Clock, systemClock } from '../../core/kit/base/clock.ts'
import type { Io } from '../../core/kit/base/io.ts'
import { createLogger } from '../../core/kit/base/logger.ts'
import { positive } from '../../core/kit/base/setting-kinds.ts'
import { defineCommand, type OptionsOf } from '../../core/kit/cli/command.ts'
import { openHost } from '../device/host.ts'
import { createSampler } from '../device/sampler.ts'

const options = {
  count: z.int().min(1).default(1).describe('number of samples to take, without a pause; the mean CPU time of one is printed'),
  every: positive(10).describe(
    'interval for which the share of a core is printed, in seconds: an agent samples at this interval with --telemetry',
  ),
  root: z.string().default('/').describe('folder to read in place of /, such as a copy of another device'),
}
type SampleOptions = OptionsOf<typeof options>

export const command = defineCommand({
  examples: [
    ['brim agent sample', 'null: unknown on this device'],
    ['brim agent sample --count 100 --json', 'with the CPU time of a sample'],
  ],
  options,
  run: sample,
})

/** A single sample waits this long, so that its loads are measured. */
const measuredMs = 1_000

async function sample({ count, every, root, json }: SampleOptions, io: Io): Promise<void> {
  const clock = skippingClock()
  const logger = createLogger('warn', { component: 'device' })
  const sampler = createSampler({ host: openHost(root), clock, logger, stateDir: tmpdir() })
  // The first sample reads constant values and compiles the code, so its cost is not counted.
  let sample = await sampler.sample(io.signal)
  const before = process.cpuUsage()
  for (let n = 0; n < count; n++) {
    io.signal.throwIfAborted()
    if (count === 1) await clock.sleep(measuredMs, io.signal)
    else clock.skip(every * 1_000)
    sample = await sampler.sample(io.signal)
  }
  const { user, system } = process.cpuUsage(before)
  const cpuMs = Number(((user + system) / 1_000 / count).toPrecision(3))
  const percentOfCore = Number((cpuMs / (10 * every)).toPrecision(3))
  if (json) return io.out(JSON.stringify({ sample, count, cpuMs, percentOfCore }))
  io.out(JSON.stringify(sample, null, 2))
  io.out(`${cpuMs} ms of CPU: ${percentOfCore} % of a core every ${every} s`)
}

/** The system's clock, with jumps. */
function skippingClock(): Clock & { skip(ms: number): void } {
  let skippedMs = 0
  return {
    nowMs: () => systemClock.nowMs() + skippedMs,
    sleep: systemClock.sleep,
    skip(ms) {
      skippedMs += ms
    },
  }
}
