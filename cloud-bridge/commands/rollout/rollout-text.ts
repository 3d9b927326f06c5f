import { z } from 'zod'
import { BrimError } from '../../../core/kit/base/errors.ts'
import { columns } from '../../../core/kit/cli/columns.ts'
import type { Rollout, RolloutDevice } from '../../../core/wire/protocol/http/rollouts.ts'
import { failureText } from '../job/job.ts'

export const rolloutIdOption = z.string().describe('id of the rollout, as "brim rollout list" shows it')

const barWidth = 24

/** How far a rollout is, on one line. */
export function summaryText({ id, kind, state, reason, devices }: Rollout): string {
  const ended = devices.total - devices.waiting - devices.started
  return `${id}  ${kind}  ${state}${reason === null ? '' : `: ${reason}`}  ${ended} of ${devices.total} devices ended`
}

/** A bar, and the numbers behind it. */
export function progressText({ state, devices, ratePerMinute }: Rollout): string {
  const { total, succeeded, failed, canceled, skipped, started, waiting, soaking } = devices
  const share = (count: number) => (total > 0 ? Math.min(barWidth, Math.round((barWidth * count) / total)) : 0)
  const [good, bad] = [share(succeeded), Math.min(barWidth - share(succeeded), share(failed))]
  const bar = `[${'#'.repeat(good)}${'x'.repeat(bad)}${'-'.repeat(barWidth - good - bad)}]`
  const counts = Object.entries({ succeeded, failed, canceled, skipped, 'under way': started, waiting })
  const parts = counts.flatMap(([name, count]) => (count > 0 || name === 'succeeded' ? [`${count} ${name}`] : []))
  if (soaking > 0) parts.push(`${soaking} watched after their success`)
  return [bar, parts.join(', '), ...(state === 'running' && waiting > 0 ? [`${ratePerMinute} a minute`] : [])].join('  ')
}

/** Devices with their states, and why each failed. */
export const devicesText = (devices: readonly RolloutDevice[]): string =>
  columns([
    ['DEVICE', 'STATE', 'JOB', 'ENDED', 'ERROR'],
    ...devices.map(({ device, state, job, endedAt, error }) => [
      device,
      state,
      job ?? '-',
      endedAt ?? '-',
      error === null ? '' : failureText(error),
    ]),
  ])

export const hasEnded = ({ state, devices }: Rollout): boolean =>
  (state === 'aborted' || state === 'completed') && devices.started === 0

/** @throws BrimError ROLLOUT_FAILED where it was aborted, or devices of it did not succeed */
export function requireSuccess({ id, state, reason, devices }: Rollout): void {
  const { total, succeeded } = devices
  if (state === 'completed' && succeeded === total) return
  throw new BrimError(
    'ROLLOUT_FAILED',
    `rollout ${id} is ${state}${reason === null ? '' : `: ${reason}`}; ${succeeded} of ${total} devices succeeded`,
    {
      hint: `"brim rollout status ${id} --devices" lists the others with their errors`,
    },
  )
}
