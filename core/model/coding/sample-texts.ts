/** Texts of many kinds, whose states stand for those of all texts. */
export const sampleTexts: readonly string[] = [
  'How do I keep basil alive in a small kitchen? Put the pot on a bright window sill, water it when the top of the soil is dry, and pick the upper leaves often, so that the plant grows wide instead of tall.',
  'User: Can you book a table for four people on Friday at 7:30 pm? Assistant: Of course. The restaurant has a free table near the garden. Under which name should I reserve it?',
  'Once upon a time there lived an old miller who had three sons, a donkey and a cat. When the miller died, the eldest got the mill, the second the donkey, and the youngest nothing but the cat.',
  'The committee met on 14 March 2019 in Geneva to discuss the report. Of the 1,250 samples, 37.5 % were above the limit of 0.02 mg per litre; the remaining ones will be tested again next year.',
  `function sum(values) {
  let total = 0
  for (const value of values) if (value > 0) total += value * 2
  return { total, mean: total / values.length }
}`,
  'def area(radius): return 3.14159 * radius ** 2  # in square metres',
  '{"id": 42, "name": "pump-07", "tags": ["north", "spare"], "temperature": -3.5, "ok": true, "note": null}',
  `SELECT name, count(*) FROM orders WHERE price >= 100 AND city = 'Lyon' GROUP BY name ORDER BY 2 DESC;`,
  'Is it true that light is faster than sound? Yes: light travels about 300,000 kilometres in a second, sound in air only 0.34. This is why we see the lightning before we hear the thunder.',
  'Dear Ms. Okafor, thank you for your letter of last week. We are sorry that the parcel arrived late and that the lamp was broken. A new one leaves our warehouse tomorrow; please keep the old one until it arrives.',
  'Wie komme ich vom Bahnhof zum Museum? Gehen Sie zuerst geradeaus, dann an der zweiten Ampel links. - Le musée est fermé le lundi. - ¿Dónde está la biblioteca? - 今日はとても良い天気です。 - Сегодня хорошая погода.',
  '1. Preheat the oven to 180 degrees. 2. Mix flour, sugar and butter. 3. Add two eggs and a pinch of salt! 4. Bake for 35 minutes, then let it cool... Enjoy.',
  'Explain step by step: a train leaves at 9:15 and needs 2 hours and 50 minutes. It arrives at 12:05, because 9:15 plus two hours is 11:15, and fifty minutes later it is 12:05.',
  '"Why did you not tell me?" she asked. Thomas looked out of the window for a long time. "Because I was afraid," came the answer at last, "that you would laugh."',
]
