import type { Store } from '../../core/kit/store/open-database.ts'
import { homeAssistantStatus } from '../../core/wire/protocol/topics.ts'
import type { BrokerLink, HomeTraffic } from '../link/control.ts'

/**
 * Clears what an earlier start with `--home-assistant` has published.
 * @param store must have `homeTable`
 * @returns undefined: there is nothing to clear
 */
export function forgetHomeAssistant(store: Store, retain: BrokerLink['retain']): HomeTraffic | undefined {
  const topics = store.prepare<[], string>('SELECT topic FROM home_topics').pluck().all()
  if (topics.length === 0) return undefined
  const clear = (send: BrokerLink['retain']) => {
    for (const topic of topics) send(topic, '')
  }
  return {
    filters: [homeAssistantStatus],
    onConnect: clear,
    onMessage(topic, payload) {
      if (topic !== homeAssistantStatus || Buffer.from(payload).toString() !== 'online') return
      // A Home Assistant at the bridge's own broker comes back after the bridge, and may still have the entities.
      clear(retain)
      store.prepare('DELETE FROM home_topics').run()
    },
  }
}
