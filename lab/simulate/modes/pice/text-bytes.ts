/** Of a token of English text, in UTF-8. */
const bytesPerToken = 4.4
/** JSON and MQTT around a job, a sentence or a result. */
const messageBytes = 300

/** Of a message with a text of so many tokens. */
export const textBytes = (tokens: number): number => messageBytes + bytesPerToken * tokens
