import type { Store } from '../../core/kit/store/open-database.ts'
import { storedJson } from '../../core/kit/store/stored-json.ts'
import { type Ability, weightOf, withRelevance, writesRubbish } from '../../core/policy/pice/ability.ts'
import { correctedFactor, exceededFactor, speedOf } from '../../core/policy/pice/small-model-speed.ts'
import type { SmallModelSpeed } from '../../core/policy/pice/state.ts'
import type { Expansion } from '../../core/wire/protocol/expansion.ts'
import type { DeviceSmallModel } from '../../core/wire/protocol/http/devices.ts'
import { DeviceProfile, SmallModelProfile } from '../../core/wire/protocol/profile.ts'
import { StoredAbilities } from './stored-abilities.ts'

/** Follows what is known of devices and models. */
export interface ProfileListener {
  /** @param speeds in the order of the profile, without abilities; undefined: the profile is forgotten */
  onSpeeds(device: string, speeds: readonly SmallModelSpeed[] | undefined): void
  /** @param ageMs of the last sentence that counts */
  onAbility(device: string, model: string, ability: Ability, ageMs: number): void
}

/** A model of a device as measured, and corrected since. */
interface ProfiledModel {
  readonly place: number
  readonly measuredAt: string
  readonly profile: SmallModelProfile
  factor: number
  runs: number
}

interface Row {
  readonly device: string
  readonly place: number
  readonly measuredAt: string
  readonly profile: string
  readonly factor: number
  readonly runs: number
}

/** How fast the small models of the devices are, and how able: measured by `profile`, corrected by what they expand; on disk. */
export class DeviceProfiles {
  readonly #store: Store
  readonly #devices = new Map<string, ProfiledModel[]>()
  readonly #wallMs: () => number
  readonly #abilities: StoredAbilities
  readonly #relevances: StoredAbilities
  #listener: ProfileListener | undefined
  readonly #insert
  readonly #correct
  readonly #remove

  /** @param store of `openPiceStore`. @param wallMs UTC ms */
  constructor(store: Store, wallMs: () => number) {
    this.#store = store
    this.#wallMs = wallMs
    this.#insert = store.prepare<[string, number, string, string]>('INSERT INTO small_models VALUES (?, ?, ?, ?, 1, 0)')
    this.#correct = store.prepare<[number, number, string, number]>(
      'UPDATE small_models SET factor = ?, runs = ? WHERE device = ? AND place = ?',
    )
    this.#remove = store.prepare<[string]>('DELETE FROM small_models WHERE device = ?')
    this.#abilities = new StoredAbilities(store, 'abilities')
    this.#relevances = new StoredAbilities(store, 'relevances')
    const rows = store
      .prepare<[], Row>('SELECT device, place, measured_at AS measuredAt, profile, factor, runs FROM small_models ORDER BY place')
      .all()
    for (const { device, profile, ...row } of rows) {
      const read = SmallModelProfile.safeParse(storedJson(profile))
      // One that an earlier release has stored, or that is damaged, is measured again.
      if (read.success) this.#devices.set(device, [...(this.#devices.get(device) ?? []), { ...row, profile: read.data }])
    }
  }

  /** Tells what is known, then what changes. */
  follow(listener: ProfileListener): void {
    this.#listener = listener
    for (const device of this.#devices.keys()) this.#tellSpeeds(device)
    for (const [device, model] of this.#abilities.all()) this.#tellAbility(device, model)
  }

  /** The result of a `profile` job. @returns false: it describes no small models */
  onProfile(device: string, result: unknown): boolean {
    const read = DeviceProfile.safeParse(result)
    if (!read.success) return false
    const { measuredAt, models } = read.data
    this.#store.transaction(() => {
      this.#remove.run(device)
      for (const [place, profile] of models.entries()) this.#insert.run(device, place, measuredAt, JSON.stringify(profile))
    })()
    this.#devices.set(
      device,
      models.map((profile, place) => ({ place, measuredAt, profile, factor: 1, runs: 0 })),
    )
    this.#tellSpeeds(device)
    return true
  }

  /** What a device measured while it expanded. @returns false: the profile lacks a model that the device has */
  onRuns(device: string, runs: Expansion['runs']): boolean {
    const areKnown = runs
      .map(({ model, parallel, tokens, tookMs }) => {
        const known = this.#devices.get(device)?.find(({ profile }) => profile.model === model)
        if (!known) return false
        known.runs += 1
        this.#setFactor(device, known, correctedFactor(known.factor, known.profile, { sequences: parallel, tokens, tookMs }))
        return true
      })
      .every((isKnown) => isKnown)
    this.#tellSpeeds(device)
    return areKnown
  }

  /** A job had not ended after `overrun` times the time that was predicted for this model. */
  onExceeded(device: string, model: string, overrun: number): void {
    const known = this.#devices.get(device)?.find(({ profile }) => profile.model === model)
    if (!known) return
    this.#setFactor(device, known, exceededFactor(known.factor, overrun))
    this.#tellSpeeds(device)
  }

  #setFactor(device: string, known: ProfiledModel, factor: number): void {
    known.factor = factor
    this.#correct.run(factor, known.runs, device, known.place)
  }

  /** Models that its profile does not name do not count: a device names as many as it likes. @param confidence of a sentence (PICE Eq. 3), 0..1 */
  judge(device: string, model: string, confidence: number): void {
    if (!this.#devices.get(device)?.some(({ profile }) => profile.model === model)) return
    this.#abilities.judge(device, model, confidence, this.#wallMs())
    this.#tellAbility(device, model)
  }

  /** What the LLM says of a sentence that has been judged. @param relevance `relevanceOf`, 0..1 */
  judgeRelevance(device: string, model: string, relevance: number): void {
    if (!this.#abilities.get(device, model)) return
    this.#relevances.judge(device, model, relevance, this.#wallMs())
    this.#tellAbility(device, model)
  }

  /** Sentences by which the relevance of a device's model is known. */
  checked(device: string, model: string): number {
    const relevance = this.#relevances.get(device, model)
    return relevance ? weightOf(relevance, this.#wallMs()) : 0
  }

  /** For operators. */
  readonly describe = (device: string): DeviceSmallModel[] => {
    return (this.#devices.get(device) ?? []).map(({ profile, measuredAt, factor, runs }) => {
      return {
        ...profile,
        measuredAt,
        slowdown: factor,
        runs,
        confidence: this.#abilityOf(device, profile.model)?.confidence ?? null,
      }
    })
  }

  /** Its models that write what is no expansion: such a device rests. */
  readonly rubbishOf = (device: string): string[] =>
    [...this.#abilities.modelsOf(device)].filter((model) => writesRubbish(this.#abilityOf(device, model), this.#wallMs()))

  forget(device: string): void {
    this.#remove.run(device)
    this.#abilities.forget(device)
    this.#relevances.forget(device)
    this.#devices.delete(device)
    this.#tellSpeeds(device)
  }

  forgetAll(): void {
    for (const device of [...this.#devices.keys()]) this.forget(device)
  }

  #tellSpeeds(device: string): void {
    this.#listener?.onSpeeds(
      device,
      this.#devices.get(device)?.map(({ profile, factor }) => speedOf(profile, factor)),
    )
  }

  #abilityOf(device: string, model: string): Ability | undefined {
    const shown = this.#abilities.get(device, model)
    return shown && withRelevance(shown, this.#relevances.get(device, model), this.#wallMs())
  }

  #tellAbility(device: string, model: string): void {
    const ability = this.#abilityOf(device, model)!
    this.#listener?.onAbility(device, model, ability, this.#wallMs() - ability.judgedMs)
  }
}
