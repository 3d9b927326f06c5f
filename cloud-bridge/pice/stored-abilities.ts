import type { Store } from '../../core/kit/store/open-database.ts'
import { type Ability, judged } from '../../core/policy/pice/ability.ts'

/** One mean of each device's models, on disk. */
export class StoredAbilities {
  /** By device, then by model. */
  readonly #abilities = new Map<string, Map<string, Ability>>()
  readonly #insert
  readonly #delete

  /** @param store of `openPiceStore` */
  constructor(store: Store, table: 'abilities' | 'relevances') {
    this.#insert = store.prepare<[string, string, number, number, number]>(
      `INSERT OR REPLACE INTO ${table} VALUES (?, ?, ?, ?, ?)`,
    )
    this.#delete = store.prepare<[string]>(`DELETE FROM ${table} WHERE device = ?`)
    const rows = store
      .prepare<[], { device: string; model: string } & Ability>(
        `SELECT device, model, confidence, sentences, judged_ms AS judgedMs FROM ${table}`,
      )
      .all()
    for (const { device, model, ...ability } of rows) this.#set(device, model, ability)
  }

  get(device: string, model: string): Ability | undefined {
    return this.#abilities.get(device)?.get(model)
  }

  *all(): Iterable<readonly [device: string, model: string]> {
    for (const [device, models] of this.#abilities) for (const model of models.keys()) yield [device, model]
  }

  modelsOf(device: string): Iterable<string> {
    return this.#abilities.get(device)?.keys() ?? []
  }

  /** @param value of one more sentence, 0..1 */
  judge(device: string, model: string, value: number, nowMs: number): void {
    const ability = judged(this.get(device, model), value, Math.round(nowMs))
    this.#set(device, model, ability)
    this.#insert.run(device, model, ability.confidence, ability.sentences, ability.judgedMs)
  }

  forget(device: string): void {
    this.#delete.run(device)
    this.#abilities.delete(device)
  }

  #set(device: string, model: string, ability: Ability): void {
    const models = this.#abilities.get(device) ?? new Map<string, Ability>()
    this.#abilities.set(device, models.set(model, ability))
  }
}
