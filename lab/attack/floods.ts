import { endlessAnswers, telemetryFlood } from './device-data.ts'
import type { Flood } from './flood.ts'
import { hiddenStatesFlood } from './hidden-states.ts'
import { anonymousRequests, answersFlood, promptsFlood, refusals } from './http-floods.ts'
import { pingFlood, reconnectFlood, stateFlood, subscribeFlood, unreadSubscriber } from './mqtt-floods.ts'
import { silentConnections } from './silent-connections.ts'

/** The floods that `brim bench attack` runs. */
export const floods: readonly Flood[] = [
  silentConnections,
  anonymousRequests,
  refusals,
  unreadSubscriber,
  stateFlood,
  subscribeFlood,
  reconnectFlood,
  pingFlood,
  hiddenStatesFlood(),
  promptsFlood,
  answersFlood,
  telemetryFlood,
  endlessAnswers,
]
