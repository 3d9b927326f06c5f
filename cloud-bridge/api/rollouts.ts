import { BrimError } from '../../core/kit/base/errors.ts'
import { withShownUrls } from '../../core/kit/base/shown-url.ts'
import { nearestWord } from '../../core/kit/cli/nearest-word.ts'
import { selectDevices } from '../../core/policy/rollout/select-devices.ts'
import { fleetOptions } from '../../core/wire/protocol/fleet-options.ts'
import { maxSelected, type Rollout, RolloutSubmission, rolloutOperations } from '../../core/wire/protocol/http/rollouts.ts'
import { ConfigInput, InstallInput, SoftwareInput } from '../../core/wire/protocol/jobs.ts'
import type { Fleet } from '../fleet/fleet.ts'
import type { RouteRequest, Routes } from '../http/router.ts'
import type { Caller } from '../identity/authorizer.ts'
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
    return begin('rollout.create', body, caller)
  }

  function retry({ params: { id }, caller }: RouteRequest<typeof rolloutOperations.retry>) {
    const { kind, input, pace } = existing(id)
    caller.auditAs('rollout.retry', id, downgradeOf(input))
    const devices = rollouts.devices(id, 0, 'failed', maxSelected).map(({ device }) => device)
    if (devices.length === 0)
      throw new BrimError('REQUEST_INVALID', `no device of rollout ${id} has failed`, {
        hint: `"brim rollout status ${id} --devices" lists them`,
      })
    return begin('rollout.retry', RolloutSubmission.parse({ kind, input, selector: { devices }, pace }), caller)
  }

  async function begin(action: 'rollout.create' | 'rollout.retry', body: RolloutSubmission, caller: Caller) {
    const { kind, input, selector, dryRun } = body
    requireAdminFor(kind, input, caller)
    if (kind === 'config.apply') requireFleetOptions(ConfigInput.parse(input))
    if (kind === 'bundle.install') await requireBundle(InstallInput.parse(input))
    if (kind === 'software.install') await requireRelease(SoftwareInput.parse(input))
    const devices = selectDevices(fleet.devices(), selector).map(({ id }) => id)
    if (dryRun) return { rollout: null, devices }
    if (devices.length === 0) throw noDevices
    caller.requireJobs(devices.length)
    const rollout = rollouts.create(body, devices, caller.actor.who)
    caller.countJobs(devices.length)
    caller.auditAs(action, rollout.id, { kind, selector, devices: devices.length, ...downgradeOf(input) })
    return { rollout: shown(rollout), devices }
  }

  const control =
    (command: RolloutCommand) =>
    ({ params: { id }, caller }: RouteRequest<(typeof rolloutOperations)[RolloutCommand]>) => {
      const { kind, input } = existing(id)
      caller.auditAs(`rollout.${command}`, id)
      if (command === 'resume') requireAdminFor(kind, input, caller)
      const { rollout, changed } = rollouts.command(id, command, caller.actor.who) ?? { rollout: existing(id), changed: false }
      caller.auditAs(`rollout.${command}`, id, { changed })
      return { ...shown(rollout), changed }
    }

  return (router) => {
    router.serve(rolloutOperations.create, create)
    router.serve(rolloutOperations.list, ({ query: { limit } }) => ({ rollouts: rollouts.list(limit).map(shown) }))
    router.serve(rolloutOperations.show, ({ params: { id } }) => ({
      ...shown(existing(id)),
      failures: rollouts.failures(id, shownFailures),
    }))
    router.serve(rolloutOperations.devices, ({ params: { id }, query: { state, from, limit } }) => {
      existing(id)
      return { devices: rollouts.devices(id, from, state, limit) }
    })
    router.serve(rolloutOperations.pause, control('pause'))
    router.serve(rolloutOperations.resume, control('resume'))
    router.serve(rolloutOperations.abort, control('abort'))
    router.serve(rolloutOperations.retry, retry)
  }
}

/** Viewers see it, but only the devices need what a URL holds beside its address. */
const shown = (rollout: Rollout): Rollout => ({ ...rollout, input: withShownUrls(rollout.input) })

/** @throws BrimError REQUEST_INVALID: each device would refuse the configuration */
function requireFleetOptions({ settings }: ConfigInput): void {
  const unknown = Object.keys(settings).filter((name) => !fleetOptions.some((known) => known === name))
  if (unknown.length === 0) return
  const problems = unknown.map((name) => {
    const nearest = nearestWord(name, fleetOptions)
    return `"${name}" is no option that the fleet may set${nearest === undefined ? '' : `; did you mean "${nearest}"?`}`
  })
  throw new BrimError('REQUEST_INVALID', problems.join('; '), { hint: `the fleet may set ${fleetOptions.join(', ')}` })
}

const noDevices = new BrimError('DEVICE_UNKNOWN', 'the selection fits no device', {
  hint: '"brim device list" shows labels and groups; a device that never connected must be named with --device',
})
