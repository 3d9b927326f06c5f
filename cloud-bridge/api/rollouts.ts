import { BrimError } from '../../core/base/errors.ts'
import { selectDevices } from '../../core/policy/rollout/select-devices.ts'
import { rolloutOperations } from '../../core/protocol/http/rollouts.ts'
import { InstallInput, SoftwareInput } from '../../core/protocol/jobs.ts'
import type { Fleet } from '../fleet/fleet.ts'
import type { RouteRequest, Routes } from '../http/router.ts'
import type { RolloutCommand, Rollouts } from '../rollout/rollouts.ts'
import { downgradeOf, requireAdminFor } from './require-admin.ts'

/** Of one rollout, in its description. */
const shownFailures = 10

export interface RolloutRoutesOptions {
  readonly rollouts: Rollouts
  readonly fleet: Pick<Fleet, 'devices'>
  /** @throws BrimError MODEL_UNKNOWN: the bridge does not offer this bundle; BUNDLE_MISMATCH: it does not serve its model */
  readonly requireBundle: (wanted: InstallInput) => Promise<void>
  /** @throws BrimError MODEL_UNKNOWN: the bridge does not offer this release */
  readonly requireRelease: (wanted: SoftwareInput) => Promise<void>
}

/** `/v1/rollouts…`: installs of bundles, configuration and software on a part of the fleet. */
export function rolloutRoutes({ rollouts, fleet, requireBundle, requireRelease }: RolloutRoutesOptions): Routes {
  function existing(id: string) {
    const rollout = rollouts.find(id)
    if (rollout) return rollout
    throw new BrimError('ROLLOUT_UNKNOWN', `there is no rollout "${id}"`, { hint: '"brim rollout list" shows the latest ones' })
  }

  async function create({ body, caller }: RouteRequest<typeof rolloutOperations.create>) {
    const { kind, input, selector, dryRun } = body
    caller.auditAs('rollout.create', rolloutOperations.create.path, { kind, selector, dryRun, ...downgradeOf(input) })
    requireAdminFor(kind, input, caller)
    if (kind === 'bundle.install') await requireBundle(InstallInput.parse(input))
    if (kind === 'software.install') await requireRelease(SoftwareInput.parse(input))
    const devices = selectDevices(fleet.devices(), selector).map(({ id }) => id)
    if (dryRun) return { rollout: null, devices }
    if (devices.length === 0) throw noDevices
    caller.requireJobs(devices.length)
    const rollout = rollouts.create(body, devices, caller.actor.who)
    caller.countJobs(devices.length)
    caller.auditAs('rollout.create', rollout.id, { kind, selector, devices: devices.length, ...downgradeOf(input) })
    return { rollout, devices }
  }

  const control =
    (command: RolloutCommand) =>
    ({ params: { id }, caller }: RouteRequest<(typeof rolloutOperations)[RolloutCommand]>) => {
      const { kind, input } = existing(id)
      caller.auditAs(`rollout.${command}`, id)
      if (command === 'resume') requireAdminFor(kind, input, caller)
      const { rollout, changed } = rollouts.command(id, command, caller.actor.who) ?? { rollout: existing(id), changed: false }
      caller.auditAs(`rollout.${command}`, id, { changed })
      return { ...rollout, changed }
    }

  return (router) => {
    router.serve(rolloutOperations.create, create)
    router.serve(rolloutOperations.list, ({ query: { limit } }) => ({ rollouts: rollouts.list(limit) }))
    router.serve(rolloutOperations.show, ({ params: { id } }) => ({
      ...existing(id),
      failures: rollouts.failures(id, shownFailures),
    }))
    router.serve(rolloutOperations.devices, ({ params: { id }, query: { state, from, limit } }) => {
      existing(id)
      return { devices: rollouts.devices(id, from, state, limit) }
    })
    router.serve(rolloutOperations.pause, control('pause'))
    router.serve(rolloutOperations.resume, control('resume'))
    router.serve(rolloutOperations.abort, control('abort'))
  }
}

const noDevices = new BrimError('DEVICE_UNKNOWN', 'the selection fits no device', {
  hint: '"brim device list" shows labels and groups; a device that never connected must be named with --device',
})
