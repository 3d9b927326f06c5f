import type { z } from 'zod'
import { BrimError, toErrorJson } from '../../core/kit/base/errors.ts'
import type { Flag } from '../../core/kit/cli/flags.ts'
import { nearestWord } from '../../core/kit/cli/nearest-word.ts'
import { effectiveSettings, mergeLayers, type Settings, type SettingValue } from '../../core/kit/config-file/setting.ts'
import {
  beginTrial,
  keepTrial,
  nextTrialStep,
  startTrial,
  type TrialState,
  type TrialStep,
  undoTrial,
} from '../../core/policy/trial/trial.ts'
import { ConfigInput, type TrialQuestion } from '../../core/wire/protocol/jobs.ts'
import type { ChangeOnTrial } from '../trial/change.ts'
import type { TrialFile } from '../trial/trial-file.ts'

export const FleetSettings = ConfigInput.shape.settings
export type FleetSettings = z.infer<typeof FleetSettings>

export interface FleetConfigOptions {
  readonly file: Pick<TrialFile<FleetSettings>, 'state' | 'set'>
  readonly flags: readonly Flag[]
  /** What the device's owner has set. */
  readonly owner: Settings
  /** Throws BrimError if the agent would not start with what the fleet has set. */
  readonly check: (fleet: Settings) => void
}

/** What a job `config.apply` does with the options that it names. */
export interface SettingNames {
  readonly applied: readonly string[]
  /** The device's owner has set them: their value counts. */
  readonly kept: readonly string[]
}

/** The options that the fleet has set on this device, below those of its owner. */
export class FleetConfig {
  readonly #options: FleetConfigOptions

  constructor(options: FleetConfigOptions) {
    this.#options = options
  }

  /** To start the agent with. What this release does not know, or refuses, is left out: the device starts all the same. */
  start(): Settings {
    const { file } = this.#options
    const { trial, kept = {} } = file.set(startTrial(file.state))
    return this.usable(trial?.change ?? kept)
  }

  /** The layer that counts now, without starting anything. */
  get layer(): Settings {
    const { trial, kept = {} } = this.#options.file.state
    return this.usable(trial?.change ?? kept)
  }

  /** The agent did not start. @returns whether another start has other options */
  onFailedStart(error: unknown): boolean {
    if (!this.onTrial) return false
    this.onTrial.undo(`the agent did not start: ${toErrorJson(error).error.message}`)
    return true
  }

  /** Undefined: nothing is on trial. */
  get onTrial(): ChangeOnTrial | undefined {
    const { file } = this.#options
    const { trial } = file.state
    return (
      trial && {
        kind: 'configuration',
        probe: trial.probe,
        keep: () => void file.set(keepTrial(file.state)),
        undo: (problem) => void file.set(undoTrial(file.state, problem)),
      }
    )
  }

  /** What a job that sets these options does next. @param job the same in all its attempts */
  nextStep(job: string, settings: FleetSettings): TrialStep {
    return nextTrialStep(this.#options.file.state, job, settings)
  }

  /** Whether the job's change is what the agent was started with last. */
  hasStartedFor(job: string): boolean {
    return this.#options.file.state.last?.job === job
  }

  /** @returns whether the agent must be started again; otherwise the change is kept */
  begin(job: string, settings: FleetSettings, probe: TrialQuestion | undefined): boolean {
    const { file } = this.#options
    const before = this.#effective(this.layer)
    const begun: TrialState<FleetSettings> = beginTrial(file.state, job, settings, probe)
    const changes = this.#effective(layerOf(settings)) !== before
    file.set(changes ? begun : keepTrial(begun))
    return changes
  }

  /** @throws BrimError CONFIG_INVALID for options that are unknown, invalid, or the owner's alone */
  check(settings: FleetSettings): SettingNames {
    const { owner, check } = this.#options
    const problems = Object.entries(settings).flatMap(([name, value]) => this.#problemOf(name, value) ?? [])
    if (problems.length > 0)
      throw new BrimError('CONFIG_INVALID', problems.join('; '), {
        hint: 'docs/configuration.md lists what the fleet may set',
      })
    check(layerOf(settings))
    const [kept, applied] = [true, false].map((is) => Object.keys(settings).filter((name) => owner.has(name) === is))
    return { applied: applied ?? [], kept: kept ?? [] }
  }

  /** Without the options that this release does not let the fleet set. */
  usable(settings: FleetSettings): Settings {
    const known = Object.entries(settings).filter(([name, value]) => this.#problemOf(name, value) === undefined)
    const valid = known.filter(([name, value]) => this.#isAccepted(layerOf({ [name]: value })))
    const layer = layerOf(Object.fromEntries(valid))
    return this.#isAccepted(layer) ? layer : new Map()
  }

  #isAccepted(layer: Settings): boolean {
    try {
      this.#options.check(layer)
      return true
    } catch {
      return false
    }
  }

  #problemOf(name: string, value: SettingValue): string | undefined {
    const { flags } = this.#options
    const flag = flags.find((each) => each.name === name)
    const open = flags.filter(({ isFleets }) => isFleets).map((each) => each.name)
    if (flag?.isFleets) {
      const isForeign = name === 'slm' && [value].flat().some((bundle) => !/^[0-9a-f]{6,64}$/.test(String(bundle)))
      return isForeign ? '"slm" must be ids of installed models' : undefined
    }
    if (flag) return `"${name}" is set by the device's owner alone; the fleet may set ${open.join(', ')}`
    const nearest = nearestWord(name, open)
    return `this device has no option "${name}"${nearest === undefined ? '' : `; did you mean "${nearest}"?`}`
  }

  /** The effective values, as text to compare. */
  #effective(layer: Settings): string {
    const { flags, owner } = this.#options
    return JSON.stringify(effectiveSettings(flags, mergeLayers(layer, owner)).map(({ value }) => value))
  }
}

const layerOf = (settings: FleetSettings): Settings =>
  new Map(Object.entries(settings).map(([name, value]) => [name, { value, source: 'fleet' }]))
