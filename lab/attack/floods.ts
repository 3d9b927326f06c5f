import { anonymousRequests } from './anonymous-requests.ts'
import { answersFlood } from './answers.ts'
import { endlessAnswers, telemetryFlood } from './device-data.ts'
import type { Flood } from './flood.ts'
import { hiddenStatesFlood } from './hidden-states.ts'
import { pingFlood, reconnectFlood, stateFlood, subscribeFlood, unreadSubscriber } from './mqtt-floods.ts'
import { promptsFlood } from './prompts.ts'
import { refusals } from './refusals.ts'
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
