import { z } from 'zod'
import { systemClock } from '../../../core/kit/base/clock.ts'
import type { Io } from '../../../core/kit/base/io.ts'
import { defineCommand } from '../../../core/kit/cli/command.ts'
import { deviceOperations } from '../../../core/wire/protocol/http/devices.ts'
import type { BridgeClient } from '../bridge-client.ts'
import { commandDevices, commandOptions, commandUsage } from './command-devices.ts'

const pollMs = 500

export const command = defineCommand({
  usage: commandUsage,
  examples: [
    ['brim device drain jetson-01 --wait', 'before maintenance: returns when its last job has ended'],
    ['brim device drain --label site=lab', 'several devices at once'],
  ],
  options: {
    ...commandOptions,
    wait: z
      .boolean()
      .describe(
        'wait until its last job has ended, not only for its reply; --no-wait: return once the bridge has stored the command',
      )
      .optional(),
  },
  run: (options, io) =>
    commandDevices('drain', options, io, async (client, device) => {
      const jobs = await jobsOf(client, device, options.wait === true, io)
      const text = jobs === 0 ? 'drained' : `draining: ${jobs} ${jobs === 1 ? 'job' : 'jobs'} to finish`
      return { text, json: { jobs } }
    }),
})

/** @param untilNone polls until the device has no job */
async function jobsOf(client: BridgeClient, id: string, untilNone: boolean, io: Io): Promise<number> {
  for (;;) {
    const { jobs } = (await client.call(deviceOperations.show, { params: { id } })).value
    if (jobs === 0 || !untilNone) return jobs
    await systemClock.sleep(pollMs, io.signal)
  }
}
