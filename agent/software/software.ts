import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { BrimError } from '../../core/kit/base/errors.ts'
import {
  beginTrial,
  failTrial,
  keepTrial,
  nextTrialStep,
  type TrialState,
  type TrialStep,
  undoTrial,
} from '../../core/policy/trial/trial.ts'
import type { TrialQuestion } from '../../core/wire/protocol/jobs.ts'
import { SequenceFloors } from '../bundles/sequence-floors.ts'
import type { ChangeOnTrial } from '../trial/change.ts'
import { TrialFile } from '../trial/trial-file.ts'
import { copyDatabases, restoreMigrated } from './database-copies.ts'
import { ReleaseFolder } from './release-folder.ts'

export interface SoftwareOptions {
  /** Folder of the releases that jobs have installed. */
  readonly path: string
  /** Name of the release that runs; undefined: the one that the device was installed with. */
  readonly running: string | undefined
  /** Of the agent's databases. */
  readonly stateDir: string
}

/**
 * The agent's own software. A change goes in steps, each of which may be the last one before a power cut:
 *
 * 1. The running release installs the new one beside itself, and records the trial.
 * 2. It ends its work, closes its databases and copies them, and sets the links; its process ends, and `jetson/launch` starts the
 *    new release. A cut before the link `current` is set leaves the running release; the next attempt begins again.
 * 3. The new release keeps itself once it is healthy. Otherwise it records the reason, sets the link back and ends. Where it cannot
 *    even do that, `jetson/launch` sets the link back at its fourth start.
 * 4. The release before it restores databases that were migrated, and records the failure.
 */
export class Software {
  readonly folder: ReleaseFolder
  readonly floors: SequenceFloors
  readonly #options: SoftwareOptions
  readonly #file: TrialFile<string>
  readonly #copies: string

  constructor(options: SoftwareOptions) {
    this.folder = new ReleaseFolder(options.path)
    this.floors = new SequenceFloors(join(options.path, 'sequences.json'))
    this.#options = options
    this.#file = new TrialFile(join(options.path, 'trial.json'), z.string())
    this.#copies = join(options.path, '.databases')
  }

  /**
   * Before the agent opens its databases.
   * @returns databases that were restored, because a release that was not healthy had migrated them
   * @throws BrimError RESTART_REQUIRED if another release must run
   */
  start(): string[] {
    const { running, stateDir } = this.#options
    const { trial } = this.#file.state
    let restored: string[] = []
    if (trial?.change === running) {
      // Its process was killed between the decision and the return.
      if (trial?.problem !== undefined) this.#goBack()
      return restored
    }
    if (trial) {
      const hasStarted = this.folder.trialStarts > 0
      // First, because it may have filled the disk.
      if (hasStarted) this.folder.prune([running, this.folder.link('previous')])
      if (hasStarted) restored = restoreMigrated(stateDir, this.#copies)
      const problem = `the release ended ${this.folder.trialStarts} times before it was healthy`
      this.#file.set(hasStarted ? failTrial(this.#file.state, problem) : withoutTrial(this.#file.state))
    }
    this.#endTrial()
    return restored
  }

  /** Undefined: the running release is not on trial. */
  get onTrial(): ChangeOnTrial | undefined {
    const { trial } = this.#file.state
    if (!trial || trial.change !== this.#options.running) return undefined
    return {
      kind: 'software',
      probe: trial.probe,
      keep: () => {
        this.floors.keep(trial.change)
        this.#file.set(keepTrial(this.#file.state))
        this.#endTrial()
        this.folder.prune([trial.change, this.folder.link('previous')])
      },
      undo: (problem) => void this.#file.set(undoTrial(this.#file.state, problem)),
    }
  }

  /** What a job that installs this release does next. @param job the same in all its attempts */
  nextStep(job: string, release: string): TrialStep {
    // What runs counts, whatever was kept last: the owner may have changed the links.
    return nextTrialStep({ ...this.#file.state, kept: this.#options.running }, job, release)
  }

  begin(job: string, release: string, probe: TrialQuestion | undefined): void {
    this.#file.set(beginTrial(this.#file.state, job, release, probe))
  }

  /**
   * After the agent has closed its databases: sets the links.
   * @throws BrimError RESTART_REQUIRED: the process must end, and `jetson/launch` starts the other release
   */
  switchOver(): void {
    const { running, stateDir } = this.#options
    const { trial } = this.#file.state
    // Something else needed the restart.
    if (!trial || (trial.change === running && trial.problem === undefined)) return
    if (trial.change === running) this.#goBack()
    try {
      copyDatabases(stateDir, this.#copies)
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error)
      this.#file.set(failTrial(this.#file.state, `the databases cannot be copied: ${reason}`))
      return
    }
    this.folder.endTrial()
    this.folder.setLink('trial', trial.change)
    this.folder.setLink('previous', running)
    this.folder.setLink('current', trial.change)
    throw restartRequired(trial.change)
  }

  #goBack(): never {
    const previous = this.folder.link('previous')
    this.folder.setLink('current', previous)
    throw restartRequired(previous ?? 'the installed release')
  }

  #endTrial(): void {
    this.folder.endTrial()
    rmSync(this.#copies, { recursive: true, force: true })
  }
}

const withoutTrial = <T>({ trial: _, ...state }: TrialState<T>): TrialState<T> => state

const restartRequired = (release: string) =>
  new BrimError('RESTART_REQUIRED', `the agent ends so that its service starts ${release}`)
